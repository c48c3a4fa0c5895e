// Datagrams by the connection manager: finding a peer's queue pair, and multicast groups.

#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "cm_conversation.hpp"
#include "completion_waiter.hpp"
#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t grh_bytes = 40;
constexpr std::size_t datagram_bytes = 200;

class cm_datagrams : public ::testing::Test {
 protected:
  void SetUp() override { RDMAXX_NEEDS(capability::ud); }

  [[nodiscard]] static socket_address group() {
    return socket_address::parse("239.77.1.2").value();
  }

  [[nodiscard]] static cm_id member() { return cm::open_datagram(own_address()).value(); }

  /// A service that waits to be asked for its queue pair.
  struct service {
    event_channel channel = event_channel::create().value();
    cm_id listener = channel.create_id(port_space::udp).value();

    service() {
      listener.bind(own_address()).value();
      listener.listen().value();
    }
    [[nodiscard]] cm_id next_request() const {
      return expect_event(channel, cm_event_type::connect_request).take_id().value();
    }
  };

  [[nodiscard]] static cm_id client_of(const service& there) {
    auto id =
        cm::resolve(there.listener.local_address(), {.space = port_space::udp, .timeout = patience})
            .value();
    id.create_qp().value();
    return id;
  }

  /// A datagram from `from` to `destination`, which must arrive at `to`.
  [[nodiscard]] static ::testing::AssertionResult arrives(
      const queue_pair& from, const cm::datagram_destination& destination, const queue_pair& to,
      std::uint64_t seed) {
    const auto outgoing = from.pd().allocate_local({.bytes = datagram_bytes}).value();
    const auto incoming = to.pd().allocate_local({.bytes = grh_bytes + datagram_bytes}).value();
    fill_pattern(outgoing.bytes(), seed);
    to.post(recv_wr{.into = incoming.scatter()}).value();
    from.post(ud_send_wr{.from = outgoing.gather(),
                         .to = destination.ah,
                         .remote_queue_pair = destination.queue_pair,
                         .remote_queue_key = destination.queue_key})
        .value();
    wait_for_success(from.send_cq());
    const auto received = wait_for_success(to.recv_cq());
    if (received.source_queue_pair() != from.number())
      return ::testing::AssertionFailure() << "it came from " << received.source_queue_pair();
    return same_bytes(incoming.bytes().subspan(grh_bytes), outgoing.bytes());
  }
};

TEST_F(cm_datagrams, a_service_reports_its_queue_pair_and_datagrams_reach_it) {
  const service there;
  const auto client = client_of(there);
  const auto question = bytes_of("who are you?");
  auto finding = std::async(std::launch::async, [&] {
    return cm::find_datagram_peer(client, {.private_data = question}, patience);
  });

  auto request = expect_event(there.channel, cm_event_type::connect_request);
  EXPECT_EQ(text_of(request.private_data()), "who are you?");
  const auto server = request.take_id().value();
  server.create_qp().value();
  EXPECT_EQ(server.qp().type(), qp_type::ud);
  const auto answer = bytes_of("the service");
  server.accept({.private_data = answer, .queue_pair = server.qp().number()}).value();
  const auto peer = finding.get().value();

  EXPECT_EQ(peer.queue_pair, server.qp().number()) << peer;
  EXPECT_EQ(peer.queue_key, qkey{RDMA_UDP_QKEY}) << peer;
  EXPECT_EQ(text_of(peer.peer_data), "the service");
  EXPECT_TRUE(arrives(client.qp(), peer, server.qp(), 1));
}

TEST_F(cm_datagrams, a_rejection_is_reported) {
  const service there;
  const auto client = client_of(there);
  auto finding =
      std::async(std::launch::async, [&] { return cm::find_datagram_peer(client, {}, patience); });

  there.next_request().reject(bytes_of("no")).value();
  const auto refused = finding.get();

  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error() == std::errc::connection_refused) << refused.error();
  EXPECT_NE(refused.error().message().find("the program there rejected the request"),
            std::string::npos)
      << refused.error();
  EXPECT_EQ(text_of(refused.error().peer_data()), "no");
}

TEST_F(cm_datagrams, a_missing_service_is_reported) {
  auto there = std::optional<service>(std::in_place);
  const auto client = client_of(*there);
  there.reset();

  const auto refused = cm::find_datagram_peer(client, {}, patience);

  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error() == std::errc::connection_refused) << refused.error();
  EXPECT_NE(refused.error().message().find("no service listens"), std::string::npos)
      << refused.error();
}

TEST_F(cm_datagrams, identifiers_of_connections_find_no_peer) {
  const auto listener = cm::listen(own_address()).value();
  const auto id = cm::resolve(listener.local_address(), {.timeout = patience}).value();

  const auto refused = cm::find_datagram_peer(id);

  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().category(), error_category::misuse);
}

TEST_F(cm_datagrams, a_datagram_to_a_group_reaches_its_members) {
  const auto sender = member();
  const auto first = member();
  const auto second = member();
  const auto to_group = cm::join_multicast(sender, group(), multicast_membership::full, patience);
  cm::join_multicast(first, group(), multicast_membership::full, patience).value();
  cm::join_multicast(second, group(), multicast_membership::full, patience).value();
  EXPECT_EQ(to_group->queue_pair, qpn{0xffffff});

  const auto outgoing = sender.pd().allocate_local({.bytes = datagram_bytes}).value();
  const auto at_first = first.pd().allocate_local({.bytes = grh_bytes + datagram_bytes}).value();
  fill_pattern(outgoing.bytes(), 2);
  first.qp().post(recv_wr{.into = at_first.scatter()}).value();

  EXPECT_TRUE(arrives(sender.qp(), *to_group, second.qp(), 2));
  wait_for_success(first.qp().recv_cq());
  EXPECT_TRUE(same_bytes(at_first.bytes().subspan(grh_bytes), outgoing.bytes()));
}

TEST_F(cm_datagrams, a_member_that_has_left_receives_nothing_more) {
  const auto sender = member();
  const auto stays = member();
  const auto leaves = member();
  const auto to_group =
      cm::join_multicast(sender, group(), multicast_membership::full, patience).value();
  cm::join_multicast(stays, group(), multicast_membership::full, patience).value();
  cm::join_multicast(leaves, group(), multicast_membership::full, patience).value();
  const auto unused = leaves.pd().allocate_local({.bytes = grh_bytes + datagram_bytes}).value();
  leaves.qp().post(recv_wr{.into = unused.scatter()}).value();

  leaves.leave_multicast(group()).value();

  EXPECT_TRUE(arrives(sender.qp(), to_group, stays.qp(), 3));
  EXPECT_TRUE(completions_in(leaves.qp().recv_cq()).empty());
  EXPECT_FALSE(leaves.leave_multicast(group()).has_value()) << "once";
}

TEST_F(cm_datagrams, leaving_does_not_wait_for_an_event_of_this_thread) {
  const auto id = member();
  id.join_multicast(group()).value();
  auto joined = expect_event(id.channel(), cm_event_type::multicast_join);
  EXPECT_EQ(joined.datagram_peer().queue_pair, qpn{0xffffff});
  EXPECT_TRUE(joined.private_data().empty());

  const auto refused = id.leave_multicast(group());

  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error() == std::errc::device_or_resource_busy) << refused.error();
  joined.acknowledge();
  EXPECT_TRUE(id.leave_multicast(group()).has_value());
}

TEST_F(cm_datagrams, a_member_can_end_before_the_event_of_its_join) {
  auto id = std::optional(member());
  const auto pd = id->pd();
  const auto cq = id->qp().send_cq();
  id->join_multicast(group()).value();
  auto joined = std::optional(expect_event(id->channel(), cm_event_type::multicast_join));

  id.reset();
  joined.reset();

  // The group has forgotten the queue pair, or it could not have been destroyed.
  const auto again = member();
  EXPECT_TRUE(cm::join_multicast(again, group(), multicast_membership::full, patience).has_value());
}

TEST_F(cm_datagrams, a_queue_pair_that_was_taken_leaves_its_groups_at_its_end) {
  auto id = std::optional(member());
  cm::join_multicast(*id, group(), multicast_membership::full, patience).value();
  auto qp = id->take_qp();
  const auto cq = qp.send_cq();

  id.reset();
  qp = {};

  EXPECT_TRUE(cq.context().create_cq({.capacity = 1}).has_value());
}

}  // namespace
}  // namespace rdmaxx::device_tests
