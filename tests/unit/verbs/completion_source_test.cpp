#include <rdmaxx/verbs/completion_source.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/verbs/cq_consumer.hpp>
#include <rdmaxx/verbs/wait_completions.hpp>
#include <rdmaxx/verbs/work_queue.hpp>

#include "unit/verbs/fake_verbs.hpp"

using namespace rdmaxx;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// A source that shows its completions in place, as extended queues and rings do.
class ring {
 public:
  /// Reads the ring's entry; copies nothing.
  class completion_type {
   public:
    explicit completion_type(const std::uint64_t& entry) noexcept : entry_(&entry) {}

    [[nodiscard]] wr_id id() const noexcept { return wr_id(*entry_); }
    [[nodiscard]] static wc_status status() noexcept { return wc_status::success; }
    [[nodiscard]] static bool is_success() noexcept { return true; }
    [[nodiscard]] static wc_opcode opcode() noexcept { return wc_opcode::send; }
    [[nodiscard]] static bool is_receive() noexcept { return false; }
    [[nodiscard]] static std::uint32_t byte_len() noexcept { return 0; }
    [[nodiscard]] static std::optional<std::uint32_t> imm_data() noexcept { return {}; }
    [[nodiscard]] static qpn queue_pair() noexcept { return qpn(0x11); }
    [[nodiscard]] static qpn source_queue_pair() noexcept { return {}; }
    [[nodiscard]] static std::uint32_t vendor_code() noexcept { return 0; }
    [[nodiscard]] static rdmaxx::error error() {
      return completion_error(wc_status::general_error, {});
    }

   private:
    const std::uint64_t* entry_;
  };

  template <class Visit>
  [[nodiscard]] result<std::size_t> poll_each(std::size_t most, Visit&& visit) const {
    std::size_t shown = 0;
    for (; shown < most && !entries->empty(); ++shown) {
      visit(completion_type(entries->front()));
      entries->pop_front();
    }
    return shown;
  }
  [[nodiscard]] static result<void> req_notify(notify) { return {}; }
  [[nodiscard]] static completion_channel channel() { return {}; }
  [[nodiscard]] bool claim_consumer() const noexcept { return !std::exchange(*is_claimed, true); }
  void release_consumer() const noexcept { *is_claimed = false; }

  std::deque<std::uint64_t>* entries = nullptr;
  bool* is_claimed = nullptr;
};
static_assert(completion_source<ring> && completion_like<ring::completion_type>);
static_assert(!completion_source<queue_pair> && !completion_like<wr_id>);

/// Written once, for every source.
template <completion_source Source>
std::vector<std::uint64_t> ids_of(const Source& source) {
  std::vector<std::uint64_t> ids;
  source.poll_each(100, [&](const auto& c) { ids.push_back(c.id().value()); }).value();
  return ids;
}

/// And for every queue.
template <work_queue Queue>
result<void> greet(const Queue& queue) {
  return queue.post(send_wr{.id = wr_id{7}});
}

}  // namespace

TEST(completion_source_test, code_is_written_once_for_all_sources) {
  std::deque<std::uint64_t> entries{1, 2, 3};
  bool is_claimed = false;
  fake_setup setup;
  ibv_wc native{};
  native.wr_id = 4;
  fake_device::of(setup.cq).completions.push_back(native);

  EXPECT_THAT(ids_of(ring{.entries = &entries, .is_claimed = &is_claimed}), ElementsAre(1, 2, 3));
  EXPECT_THAT(ids_of(setup.cq), ElementsAre(4));
}

TEST(completion_source_test, waits_are_written_once_for_all_sources) {
  std::deque<std::uint64_t> entries{1, 2, 3};
  bool is_claimed = false;
  const ring source{.entries = &entries, .is_claimed = &is_claimed};
  std::vector<std::uint64_t> ids;
  spin_policy spin;
  const auto note = [&](const ring::completion_type& c) { ids.push_back(c.id().value()); };

  EXPECT_EQ(wait_each(source, 2, note, forever, spin).value(), 2U);
  EXPECT_EQ(wait_each(source, 2, note, forever, spin).value(), 1U);
  EXPECT_EQ(wait_each(source, 2, note, std::chrono::milliseconds(1), spin).error(),
            std::errc::timed_out);

  EXPECT_THAT(ids, ElementsAre(1, 2, 3));
}

TEST(work_queue_test, code_is_written_once_for_all_queues) {
  fake_setup setup;
  const auto qp = setup.make_qp();

  ASSERT_TRUE(greet(qp));

  ASSERT_EQ(fake_device::of(qp).sends.size(), 1U);
  EXPECT_EQ(fake_device::of(qp).sends.front().request.wr_id, 7U);
}

TEST(cq_consumer_test, there_is_one_at_a_time) {
  fake_setup setup;
  auto first = cq_consumer::of(setup.cq).value();
  const auto copy = setup.cq;

  const auto second = cq_consumer::of(copy);

  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().category(), error_category::misuse);
  EXPECT_THAT(second.error().problem(), HasSubstr("has a consumer already"));
}

TEST(cq_consumer_test, the_role_is_given_back_at_the_end_and_moves_with_its_object) {
  fake_setup setup;
  {
    auto first = cq_consumer::of(setup.cq).value();
    const auto moved = std::move(first);
    EXPECT_TRUE(moved);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the subject
    EXPECT_FALSE(cq_consumer::of(setup.cq));
  }
  auto next = cq_consumer::of(setup.cq).value();
  next = {};
  EXPECT_TRUE(cq_consumer::of(setup.cq));
}

TEST(cq_consumer_test, polls_and_arms_its_queue) {
  fake_setup setup;
  ibv_wc native{};
  native.wr_id = 4;
  fake_device::of(setup.cq).completions.push_back(native);
  const auto consumer = cq_consumer::of(setup.cq).value();

  EXPECT_TRUE(consumer.req_notify(notify::solicited));
  EXPECT_EQ(
      consumer.poll_each(8, [](const work_completion& c) { EXPECT_EQ(c.id(), wr_id(4)); }).value(),
      1U);

  EXPECT_THAT(fake_device::of(setup.cq).notifications, ElementsAre(1));
  EXPECT_THAT(describe(consumer), HasSubstr("consumer of completion_queue"));
}
