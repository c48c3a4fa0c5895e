#pragma once

// completion_queue: where finished work requests are reported.
//
// wait_completions() (wait_completions.hpp) sleeps until there are some.
//
// Lifetime: copies share one queue; queue pairs that use it and its events keep it alive. Threads:
// poll(), req_notify() and the queries may be called from any thread; each completion goes to one
// of the pollers. resize() and poll() must not run at the same time.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/completion_channel.hpp>
#include <rdmaxx/verbs/completion_source.hpp>
#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/observer.hpp>
#include <rdmaxx/verbs/work_completion.hpp>

namespace RDMAXX_NAMESPACE {

struct completion_queue_config {
  std::uint32_t capacity = 128;         ///< completions; the device may round up
  completion_channel channel{};         ///< where events go; empty: the queue is only polled
  std::uint32_t completion_vector = 0;  ///< which of the device's interrupt vectors signals events
};
[[nodiscard]] std::string describe(const completion_queue_config& config);

/// The result of a poll: behaves like result<std::span<work_completion>>.
///
/// A result<T> keeps its error beside the value, in memory, which is too slow for polling. This is
/// a pointer and the C return code, in registers; the error is built only on demand.
class [[nodiscard]] poll_result {
 public:
  poll_result(work_completion* first, int count) noexcept : first_(first), count_(count) {}

  [[nodiscard]] bool has_value() const noexcept { return count_ >= 0; }
  explicit operator bool() const noexcept { return has_value(); }
  /// The completions; only if has_value().
  [[nodiscard]] std::span<work_completion> operator*() const noexcept {
    return {first_, static_cast<std::size_t>(count_)};
  }
  [[nodiscard]] std::span<work_completion> value() const {
    if (!has_value()) [[unlikely]]
      detail::throw_error(error());
    return **this;
  }
  /// Why the poll failed; only if not has_value().
  [[nodiscard]] rdmaxx::error error() const;

  operator result<std::span<work_completion>>() const {
    if (!has_value()) [[unlikely]]
      return error();
    return **this;
  }

 private:
  work_completion* first_;
  int count_;  ///< negative: the C call's failure
};
static_assert(std::is_trivially_copyable_v<poll_result> &&
              sizeof(poll_result) == 2 * sizeof(void*));

class completion_queue : public shared_handle<ibv_cq> {
 public:
  using completion_type = work_completion;

  completion_queue() noexcept = default;

  /// Takes over a queue that was created elsewhere on `ctx`'s device, with the channel that it was
  /// created with, if any. Its events name this object when they are fetched from `channel` or a
  /// copy of it.
  [[nodiscard]] static result<completion_queue> adopt(ibv_cq* native, const rdmaxx::context& ctx,
                                                      const completion_channel& channel = {},
                                                      adoption how = {});

  [[nodiscard]] const rdmaxx::context& context() const noexcept;
  [[nodiscard]] std::uint32_t capacity() const noexcept {
    return static_cast<std::uint32_t>(live()->cqe);
  }
  /// Empty if the queue was created without one.
  [[nodiscard]] const completion_channel& channel() const noexcept;

  /// Moves up to `into.size()` (at most INT_MAX) completions into `into`; the result is the part
  /// that was filled. Never waits.
  [[nodiscard]] poll_result poll(std::span<work_completion> into) const noexcept {
    const int count = ibv_poll_cq(live(), static_cast<int>(into.size()), into.data());
    if (count > 0) detail::observer::polled(live(), into.first(static_cast<std::size_t>(count)));
    return {into.data(), count};
  }

  /// Shows up to `most` completions to `visit`, one by one, and returns how many there were. Never
  /// waits.
  template <std::invocable<const work_completion&> Visit>
  [[nodiscard]] result<std::size_t> poll_each(std::size_t most,
                                              Visit&& visit) const {  // NOLINT(*-std-forward)
    std::array<work_completion, 16> room;
    std::size_t shown = 0;
    while (shown < most) {
      const auto wanted = std::span(room).first(std::min(room.size(), most - shown));
      const auto polled = poll(wanted);
      if (!polled) [[unlikely]]
        return polled.error();
      for (const work_completion& completion : *polled) visit(completion);
      shown += (*polled).size();
      if ((*polled).size() < wanted.size()) break;
    }
    return shown;
  }

  /// Arms the queue: the next completion (or solicited one) raises one event on its channel.
  /// Completions that are already queued do not: poll after arming.
  [[nodiscard]] result<void> req_notify(notify kind = notify::any) const {
    const int rc = ibv_req_notify_cq(live(), kind == notify::solicited ? 1 : 0);
    if (rc == 0) [[likely]]
      return {};
    return notify_failed(rc);
  }

  [[nodiscard]] result<void> resize(std::uint32_t capacity) const;

  /// For cq_consumer: true for the first caller, until release_consumer().
  [[nodiscard]] bool claim_consumer() const noexcept;
  void release_consumer() const noexcept;

  /// The C queue for ibv_start_poll and the like; null if the device has no extended queues (siw),
  /// or if the queue was adopted.
  [[nodiscard]] ibv_cq_ex* native_extended() const noexcept;

 private:
  friend struct detail::handle_access;
  using shared_handle::shared_handle;

  [[nodiscard, gnu::cold]] error notify_failed(int rc) const;
};
[[nodiscard]] std::string describe(const completion_queue& cq);

static_assert(completion_source<completion_queue>);

}  // namespace RDMAXX_NAMESPACE
