#pragma once

// cq_consumer: the role of the code that drains a completion queue.
//
//   auto consumer = cq_consumer::of(cq).value();             // a second one is refused
//   consumer.poll_each(16, [&](const work_completion& c) { dispatch(c); }).value();
//
// Two pollers of one queue take each other's completions, and no device reports that. Code that
// dispatches completions by their wr_ids takes the role when it is set up, so that a second
// dispatcher on the same queue fails at set-up and not later. Polling through the role costs as
// much as polling the queue.
//
// Lifetime: move-only; keeps its queue alive, and returns the role when destroyed. Threads: one at
// a time.

#include <cstddef>
#include <utility>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/completion_source.hpp>

namespace RDMAXX_NAMESPACE {

template <completion_source Source>
class basic_cq_consumer {
 public:
  using completion_type = typename Source::completion_type;

  basic_cq_consumer() noexcept = default;
  basic_cq_consumer(basic_cq_consumer&& other) noexcept
      : source_(std::move(other.source_)), has_role_(std::exchange(other.has_role_, false)) {}
  basic_cq_consumer& operator=(basic_cq_consumer&& other) noexcept {
    std::swap(source_, other.source_);
    std::swap(has_role_, other.has_role_);
    return *this;
  }
  basic_cq_consumer(const basic_cq_consumer&) = delete;
  basic_cq_consumer& operator=(const basic_cq_consumer&) = delete;
  ~basic_cq_consumer() {
    if (has_role_) source_.release_consumer();
  }

  /// Fails if the source already has a consumer.
  [[nodiscard]] static result<basic_cq_consumer> of(Source source) {
    if (!source.claim_consumer()) {
      return misuse_error("cq_consumer::of", "the completion queue has a consumer already",
                          "hand that one on, or use a completion queue of its own");
    }
    return basic_cq_consumer(std::move(source));
  }

  explicit operator bool() const noexcept { return has_role_; }
  [[nodiscard]] const Source& source() const noexcept { return source_; }

  template <class Visit>
  [[nodiscard]] result<std::size_t> poll_each(std::size_t most, Visit&& visit) const {
    return source_.poll_each(most, std::forward<Visit>(visit));
  }
  [[nodiscard]] result<void> req_notify(notify kind = notify::any) const {
    return source_.req_notify(kind);
  }

 private:
  explicit basic_cq_consumer(Source source) noexcept
      : source_(std::move(source)), has_role_(true) {}

  Source source_{};
  bool has_role_ = false;
};

using cq_consumer = basic_cq_consumer<completion_queue>;
[[nodiscard]] std::string describe(const cq_consumer& consumer);

}  // namespace RDMAXX_NAMESPACE
