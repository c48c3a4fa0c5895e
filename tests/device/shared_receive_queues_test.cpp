// Receives that several queue pairs share.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "cm_conversation.hpp"
#include "completion_waiter.hpp"
#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

TEST(shared_receive_queues, serve_whichever_connection_needs_a_receive) {
  const auto waiting = cm::listen(own_address()).value();
  std::optional<shared_receive_queue> srq;
  completion_queue recv_cq;
  owned_region memory;
  std::vector<cm::connection> servers;
  std::vector<cm::connection> clients;
  for (int i = 0; i < 3; ++i) {
    auto asking =
        std::async(std::launch::async, [&] { return cm::connect(waiting.local_address()); });
    auto request = waiting.get_request(patience);
    ASSERT_TRUE(request.has_value());
    const auto ctx = request->id().context().value();
    if (!srq) {
      const auto pd = ctx.alloc_pd().value();
      srq = pd.create_srq({.capacity = 16}).value();
      recv_cq = ctx.create_cq({.capacity = 64}).value();
      memory = pd.allocate_local({.bytes = 16 * 64}).value();
      for (std::uint64_t slot = 0; slot < 16; ++slot) {
        const auto place = memory.bytes().subspan(slot * 64, 64);
        srq->post(recv_wr{.id = wr_id{slot}, .into = memory.scatter(place)}).value();
      }
    }
    request->id().create_qp({.pd = srq->pd(), .recv_cq = recv_cq, .srq = *srq}).value();
    servers.push_back(std::move(*request).accept().value());
    clients.push_back(asking.get().value());
  }

  std::set<std::uint64_t> used;
  for (std::size_t round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      const auto from = clients[i].pd().allocate_local({.bytes = 64}).value();
      fill_pattern(from.bytes(), round * 10 + i);
      clients[i].qp().post(send_wr{.from = from.gather()}).value();
      wait_for_success(clients[i].qp().send_cq());
      const auto arrived = wait_for_success(recv_cq);
      EXPECT_EQ(arrived.queue_pair(), servers[i].qp().number());
      EXPECT_TRUE(used.insert(arrived.id().value()).second) << "a receive was used twice";
      const auto place = memory.bytes().subspan(arrived.id().value() * 64, 64);
      EXPECT_TRUE(same_bytes(place, from.bytes()));
    }
  }
  EXPECT_EQ(used.size(), 15U);
}

class shared_receives : public device_test {};

TEST_F(shared_receives, tell_when_few_are_left) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto events = ctx.async_events().value();
  const auto pd = ctx.alloc_pd().value();
  const auto cq = ctx.create_cq({.capacity = 64}).value();
  const auto srq = pd.create_srq({.capacity = 8}).value();
  EXPECT_GE(srq.capacity(), 8U);
  const auto receiver = pd.create_qp({.send_cq = cq, .recv_cq = cq, .srq = srq}).value();
  const auto sender = pd.create_qp({.send_cq = cq, .recv_cq = cq}).value();
  sender.connect(receiver.endpoint().value()).value();
  receiver.connect(sender.endpoint().value()).value();
  const auto memory = pd.allocate_local({.bytes = 64}).value();
  std::array<recv_slot, 4> slots;
  recv_list list(slots);
  const std::array into{memory.scatter()};
  for (std::uint64_t i = 0; i < slots.size(); ++i) list.push(recv_wr{.id = wr_id{i}, .into = into});
  srq.post(list).value();
  srq.set_limit(3).value();
  EXPECT_EQ(srq.limit().value(), 3U);

  for (int i = 0; i < 2; ++i) {
    sender.post(send_wr{.from = memory.gather()}).value();
    wait_for_successes(cq, 2);
  }
  const auto event = events.get_event(patience);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->type(), async_event_type::srq_limit_reached);
  EXPECT_TRUE(event->concerns(srq));
  EXPECT_EQ(srq.limit().value(), 0U);
}

TEST_F(shared_receives, outlive_their_handle_while_a_queue_pair_needs_them) {
  const auto pd = ctx.alloc_pd().value();
  const auto cq = ctx.create_cq({.capacity = 8}).value();
  auto srq = pd.create_srq({}).value();
  const auto qp = pd.create_qp({.send_cq = cq, .recv_cq = cq, .srq = srq}).value();
  srq = {};
  EXPECT_TRUE(qp.srq());
  const auto memory = pd.allocate_local({.bytes = 64}).value();
  qp.srq().post(recv_wr{.into = memory.scatter()}).value();
}

TEST_F(shared_receives, say_what_is_wrong_with_a_config) {
  const auto pd = ctx.alloc_pd().value();
  const auto failed = pd.create_srq({.capacity = 100'000'000});
  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().message().find("capacities from 1 to"), std::string::npos)
      << failed.error();
  const auto other = ctx.alloc_pd().value().create_srq({}).value();
  EXPECT_EQ(other.capacity() >= 64, true);
}

}  // namespace

}  // namespace rdmaxx::device_tests
