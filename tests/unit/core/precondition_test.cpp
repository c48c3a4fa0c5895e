#include <rdmaxx/core/precondition.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "unit/verbs/fake_verbs.hpp"

using namespace rdmaxx;

#if !RDMAXX_HARDENED
#error "the tests are built with checks: without NDEBUG, or with RDMAXX_HARDENED=1"
#endif

TEST(call_names, are_class_and_function) {
  const auto name = detail::short_name_of_call;
  EXPECT_EQ(name("rdmaxx::v0::result<void> rdmaxx::v0::queue_pair::post(const Request&) const "
                 "[with Request = rdmaxx::v0::send_wr]"),
            "queue_pair::post");
  EXPECT_EQ(name("const completion_channel &rdmaxx::completion_queue::channel() const"),
            "completion_queue::channel");
  EXPECT_EQ(name("main"), "main");
  EXPECT_EQ(name(""), "");
}

namespace {

class empty_handle : public testing::Test {
 protected:
  fake_setup setup;
  std::array<std::byte, 16> bytes{};
};

constexpr const char* on_an_empty_handle = R"(\(\) was called on an empty handle, which is )"
                                           R"(default-constructed or moved from \[hint: )";

#define EXPECT_NAMED_DEATH(statement, call) \
  EXPECT_DEATH((void)(statement), std::string("rdmaxx: ") + (call) + on_an_empty_handle)

}  // namespace

using empty_handle_death = empty_handle;

TEST_F(empty_handle_death, the_data_path_names_object_and_call) {
  const queue_pair qp;
  const completion_queue cq;
  std::array<work_completion, 1> completions;
  std::array<send_slot, 1> slots{};
  send_list list(slots);
  list.push(send_wr{});

  EXPECT_NAMED_DEATH(qp.post(send_wr{}), "queue_pair::post");
  EXPECT_NAMED_DEATH(qp.post(recv_wr{}), "queue_pair::post");
  EXPECT_NAMED_DEATH(qp.post(list), "queue_pair::post");
  EXPECT_NAMED_DEATH(cq.poll(completions), "completion_queue::poll");
  EXPECT_NAMED_DEATH(cq.req_notify(), "completion_queue::req_notify");
}

TEST_F(empty_handle_death, what_was_moved_from_is_empty) {
  auto qp = setup.make_qp();
  const auto other = std::move(qp);
  auto region = setup.pd.register_local(bytes).value();
  const auto other_region = std::move(region);

  EXPECT_TRUE(other.post(send_wr{}));
  EXPECT_NAMED_DEATH(qp.post(send_wr{}), "queue_pair::post");  // NOLINT(bugprone-use-after-move)
  EXPECT_NAMED_DEATH(qp.state(), "queue_pair::state");
  EXPECT_NAMED_DEATH(qp.capabilities(), "queue_pair::capabilities");
  EXPECT_NAMED_DEATH(qp.drain(), R"(queue_pair::\w+)");
  EXPECT_NAMED_DEATH(region.gather(), R"(memory_region::\w+)");
  EXPECT_NAMED_DEATH(region.lkey(), "memory_region::lkey");
}

TEST_F(empty_handle_death, a_queue_without_a_channel_has_none_to_wait_for) {
  const auto cq = setup.ctx.create_cq({.capacity = 4}).value();

  EXPECT_DEATH((void)cq.channel().get_event(std::chrono::milliseconds(1)),
               R"(completion_channel::get_event\(\) was called on an empty handle.*create_cq\()");
  EXPECT_NAMED_DEATH(cq.channel().try_get_event(), "completion_channel::try_get_event");
  EXPECT_NAMED_DEATH(cq.channel().fd(), "completion_channel::fd");
}

TEST_F(empty_handle_death, parents_and_the_connection_manager_are_checked_too) {
  EXPECT_NAMED_DEATH(context().alloc_pd(), "context::alloc_pd");
  EXPECT_NAMED_DEATH(context().device_name(), "context::device_name");
  EXPECT_NAMED_DEATH(protection_domain().context(), "protection_domain::context");
  EXPECT_NAMED_DEATH(shared_receive_queue().post(recv_wr{}), "shared_receive_queue::post");
  EXPECT_NAMED_DEATH(cm_id().disconnect(), "cm_id::disconnect");
  EXPECT_NAMED_DEATH(cm_id().qp(), "cm_id::qp");
  EXPECT_NAMED_DEATH(event_channel().try_get_event(), "event_channel::try_get_event");
  EXPECT_NAMED_DEATH(cm::connection().disconnect(), "cm_id::disconnect");
}

TEST_F(empty_handle_death, a_datagram_needs_an_address) {
  const auto qp = setup.make_qp();
  const address_handle nowhere;

  EXPECT_DEATH((void)qp.post(ud_send_wr{.to = nowhere}), "ud_send_wr to an empty address_handle");
}

TEST_F(empty_handle, may_be_destroyed_assigned_compared_and_described) {
  queue_pair qp;
  queue_pair other = std::move(qp);
  qp = setup.make_qp();

  EXPECT_TRUE(qp);
  EXPECT_NE(qp, other);
  EXPECT_EQ(describe(other), "queue_pair (empty)");
  EXPECT_EQ(other.native(), nullptr);
}
