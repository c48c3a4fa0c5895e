// Connections by cm::connect and cm::listener: what passes between the two sides, and how they are
// established, rejected and ended.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "cm_conversation.hpp"
#include "completion_waiter.hpp"
#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

class cm_connections : public ::testing::Test {
 protected:
  [[nodiscard]] static bool iwarp() { return device_under_test::get().is_iwarp(); }

  /// A client that tries to connect to `where` in another thread.
  [[nodiscard]] static std::future<result<cm::connection>> connecting(
      const socket_address& where, std::chrono::milliseconds timeout = patience) {
    return std::async(std::launch::async, [=] { return cm::connect(where, {.timeout = timeout}); });
  }
};

TEST_F(cm_connections, bytes_pass_in_both_directions) {
  const cm_conversation talk;

  EXPECT_TRUE(bytes_pass(talk.client.qp(), talk.server.qp(), 1));
  EXPECT_TRUE(bytes_pass(talk.server.qp(), talk.client.qp(), 2));
}

TEST_F(cm_connections, each_side_knows_both_addresses) {
  const cm_conversation talk;
  const auto at = talk.listener.local_address();

  EXPECT_NE(at.port(), 0);
  EXPECT_EQ(at, own_address(at.port()));
  EXPECT_EQ(talk.client.peer_address(), at);
  EXPECT_EQ(talk.server.local_address(), at);
  EXPECT_EQ(talk.server.peer_address(), talk.client.local_address());
  EXPECT_NE(describe(talk.client).find(describe(at)), std::string::npos) << talk.client;
}

TEST_F(cm_connections, private_data_passes_in_both_directions) {
  const auto listener = cm::listen(own_address()).value();
  // The most that a request and an acceptance of RoCE carry.
  const auto question = bytes_of(std::string(56, 'q'));
  const auto answer = bytes_of(std::string(196, 'a'));
  auto client = std::async(std::launch::async, [&] {
    return cm::connect(listener.local_address(),
                       {.parameters = {.private_data = question}, .timeout = patience});
  });

  auto request = listener.get_request(patience);
  ASSERT_TRUE(request.has_value());
  const auto asked = text_of(request->peer_data());
  const auto server = std::move(*request)
                          .accept({.parameters = {.private_data = answer}, .timeout = patience})
                          .value();

  EXPECT_EQ(asked, std::string(56, 'q'));
  EXPECT_EQ(text_of(client.get().value().peer_data()), std::string(196, 'a'));
}

TEST_F(cm_connections, parameters_of_the_request_arrive) {
  const auto listener = cm::listen(own_address()).value();
  auto client = std::async(std::launch::async, [&] {
    return cm::connect(
        listener.local_address(),
        {.parameters = {.responder_resources = 3, .initiator_depth = 2}, .timeout = patience});
  });

  auto request = listener.get_request(patience);
  ASSERT_TRUE(request.has_value());
  const auto offered = request->parameters();
  std::move(*request).reject().value();

  // What the peer may have in flight here is what it called its initiator's depth.
  EXPECT_EQ(offered.responder_resources, 2) << offered;
  EXPECT_EQ(offered.initiator_depth, 3) << offered;
  EXPECT_FALSE(client.get().has_value());
}

TEST_F(cm_connections, too_much_private_data_is_refused_before_it_is_sent) {
  const auto listener = cm::listen(own_address()).value();

  const auto failed = cm::connect(listener.local_address(),
                                  {.parameters = {.private_data = std::vector<std::byte>(256)}});

  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().category(), error_category::misuse);
  EXPECT_NE(failed.error().message().find("256 bytes"), std::string::npos) << failed.error();
}

TEST_F(cm_connections, own_queues_and_domain_are_used) {
  const auto listener = cm::listen(own_address()).value();
  auto id = cm::resolve(listener.local_address(), {.timeout = patience}).value();
  const auto ctx = id.context().value();
  const auto pd = ctx.alloc_pd().value();
  const auto cq = ctx.create_cq({.capacity = 32}).value();
  id.create_qp({.pd = pd, .send_cq = cq, .recv_cq = cq, .capabilities = {.max_send_wr = 5}})
      .value();
  auto client =
      std::async(std::launch::async, [&] { return cm::connect(std::move(id), {}, patience); });

  auto request = listener.get_request(patience);
  ASSERT_TRUE(request.has_value());
  // Both sides are on one device, which librdmacm has opened once.
  EXPECT_EQ(request->id().context().value(), ctx);
  request->id().create_qp({.pd = pd, .send_cq = cq, .recv_cq = cq}).value();
  const auto server = std::move(*request).accept({.timeout = patience}).value();
  const auto connected = client.get().value();

  EXPECT_EQ(connected.pd(), pd);
  EXPECT_EQ(connected.qp().send_cq(), cq);
  EXPECT_GE(connected.qp().capabilities().max_send_wr, 5U);
  EXPECT_EQ(server.pd(), pd);
}

TEST_F(cm_connections, a_receive_that_waits_before_the_connection_is_up_is_used) {
  const auto listener = cm::listen(own_address()).value();
  auto client = connecting(listener.local_address());
  auto request = listener.get_request(patience);
  ASSERT_TRUE(request.has_value());
  request->id().create_qp().value();
  const auto into = request->id().pd().allocate_local({.bytes = 64}).value();
  request->id().qp().post(recv_wr{.id = wr_id{7}, .into = into.scatter()}).value();

  const auto server = std::move(*request).accept({.timeout = patience}).value();
  const auto connected = client.get().value();
  const auto from = connected.pd().allocate_local({.bytes = 64}).value();
  std::ranges::fill(from.bytes(), std::byte{0x5a});
  connected.qp().post(send_wr{.from = from.gather()}).value();

  EXPECT_EQ(wait_for_success(server.qp().recv_cq()).id(), wr_id{7});
  EXPECT_EQ(into.bytes()[63], std::byte{0x5a});
}

TEST_F(cm_connections, a_domain_of_another_context_is_refused) {
  const auto listener = cm::listen(own_address()).value();
  const auto id = cm::resolve(listener.local_address(), {.timeout = patience}).value();
  const auto foreign = device_under_test::get().open().alloc_pd().value();

  const auto refused = id.create_qp({.pd = foreign});

  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().hint().find("cm_id::context()"), std::string_view::npos);
  EXPECT_FALSE(id.qp());
}

TEST_F(cm_connections, ipv6_works) {
  if (!own_ipv6_address())
    GTEST_SKIP() << "the device lacks an interface with a global IPv6 address";
  const cm_conversation talk(own_ipv6_address());

  EXPECT_TRUE(talk.client.peer_address().is_ipv6());
  EXPECT_TRUE(bytes_pass(talk.client.qp(), talk.server.qp(), 3));
}

TEST_F(cm_connections, a_listener_on_all_addresses_accepts) {
  const cm_conversation talk(socket_address::parse("0.0.0.0:0").value());

  EXPECT_TRUE(talk.listener.local_address().is_any());
  EXPECT_EQ(talk.server.local_address(), own_address(talk.listener.local_address().port()));
  EXPECT_TRUE(bytes_pass(talk.client.qp(), talk.server.qp(), 4));
}

TEST_F(cm_connections, a_listener_on_all_addresses_of_both_families_accepts) {
  if (iwarp())
    GTEST_SKIP() << "the device lacks listeners for both families: siw has IPv6 only ones";
  const cm_conversation talk(socket_address::parse("[::]:0").value());

  EXPECT_TRUE(bytes_pass(talk.client.qp(), talk.server.qp(), 5));
}

TEST_F(cm_connections, a_name_works) {
  const auto& netdev = device_under_test::get().netdev();
  if (!netdev || netdev->name != "lo")
    GTEST_SKIP() << "the device lacks an interface with a name that every host knows (localhost)";
  const auto listener = cm::listen("localhost:0").value();
  const auto port = std::to_string(listener.local_address().port());
  auto client = std::async(std::launch::async,
                           [&] { return cm::connect("localhost:" + port, {.timeout = patience}); });

  const auto server = listener.accept({.timeout = patience}).value();

  EXPECT_TRUE(bytes_pass(client.get().value().qp(), server.qp(), 6));
}

TEST_F(cm_connections, the_source_address_can_be_chosen) {
  const cm_conversation talk(own_address(), {.source = own_address()});

  EXPECT_EQ(talk.client.local_address().host(), own_address().host());
}

TEST_F(cm_connections, a_rejection_has_the_reason_and_the_peers_private_data) {
  const auto listener = cm::listen(own_address()).value();
  auto client = connecting(listener.local_address());

  auto request = listener.get_request(patience);
  ASSERT_TRUE(request.has_value());
  std::move(*request).reject(bytes_of("full up")).value();
  const auto refused = client.get();

  ASSERT_FALSE(refused.has_value());
  const auto& failure = refused.error();
  EXPECT_EQ(failure.category(), error_category::peer);
  EXPECT_EQ(text_of(failure.peer_data()), "full up");
  EXPECT_NE(failure.message().find(describe(listener.local_address())), std::string::npos)
      << failure;
  if (iwarp()) return;  // it reports no reasons
  EXPECT_EQ(failure.code(), reject_reason::consumer) << failure;
  EXPECT_TRUE(failure == std::errc::connection_refused) << failure;
  EXPECT_NE(failure.message().find("28 (consumer)"), std::string::npos) << failure;
}

TEST_F(cm_connections, a_port_without_a_listener_is_reported) {
  const auto port = cm::listen(own_address()).value().local_address().port();

  const auto refused = cm::connect(own_address(port), {.timeout = patience});

  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().category(), error_category::peer) << refused.error();
  EXPECT_TRUE(refused.error() == std::errc::connection_refused) << refused.error();
  EXPECT_NE(refused.error().hint().find("nothing listens"), std::string_view::npos);
  if (iwarp()) return;
  EXPECT_EQ(refused.error().code(), reject_reason::no_such_service) << refused.error();
}

TEST_F(cm_connections, an_address_that_no_device_reaches_is_reported) {
  const auto elsewhere = device_under_test::get().address_elsewhere() + ":7471";

  const auto failed = cm::connect(elsewhere, {.timeout = patience});

  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().message().find("resolving " + elsewhere), std::string::npos)
      << failed.error();
}

TEST_F(cm_connections, an_address_that_this_host_does_not_have_cannot_be_listened_on) {
  const auto failed = cm::listen("203.0.113.7:0");

  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().message().find("listening on 203.0.113.7:0"), std::string::npos)
      << failed.error();
}

TEST_F(cm_connections, a_port_in_use_cannot_be_listened_on) {
  const auto first = cm::listen(own_address()).value();

  const auto second = cm::listen(first.local_address());

  ASSERT_FALSE(second.has_value());
  EXPECT_TRUE(second.error() == error_of_taken_port()) << second.error();
}

TEST_F(cm_connections, connecting_times_out) {
  const auto listener = cm::listen(own_address()).value();

  // The request arrives, but nobody answers it.
  const auto late = cm::connect(listener.local_address(), {.timeout = 300ms});

  ASSERT_FALSE(late.has_value());
  EXPECT_TRUE(late.error() == std::errc::timed_out) << late.error();
  EXPECT_NE(late.error().message().find("waiting for established"), std::string::npos)
      << late.error();
}

TEST_F(cm_connections, accepting_times_out) {
  const auto listener = cm::listen(own_address()).value();

  EXPECT_EQ(listener.accept({.timeout = 20ms}).error(), std::errc::timed_out);
  EXPECT_FALSE(listener.try_accept().value().has_value());
  EXPECT_FALSE(listener.try_get_request().value().has_value());
  EXPECT_EQ(listener.get_request(0ms).error(), std::errc::timed_out);
}

TEST_F(cm_connections, a_waiting_request_makes_the_listener_readable) {
  const auto listener = cm::listen(own_address()).value();
  EXPECT_FALSE(wait_readable(listener.fd(), 0ms).value());
  auto client = connecting(listener.local_address());

  std::optional<cm::connection> server;
  while (!server && wait_readable(listener.fd(), patience).value())
    server = listener.try_accept({.timeout = patience}).value();

  ASSERT_TRUE(server.has_value());
  EXPECT_TRUE(client.get().has_value());
}

TEST_F(cm_connections, the_server_notices_that_the_client_disconnected) {
  cm_conversation talk;
  const auto into = talk.server.pd().allocate_local({.bytes = 8}).value();
  talk.server.qp().post(recv_wr{.id = wr_id{9}, .into = into.scatter()}).value();

  talk.client.disconnect().value();

  EXPECT_TRUE(talk.server.wait_disconnected(patience).has_value());
  EXPECT_TRUE(talk.client.wait_disconnected(patience).has_value());
  EXPECT_TRUE(talk.client.wait_disconnected(0ms).has_value()) << "it stays disconnected";
  EXPECT_EQ(wait_for_one(talk.server.qp().recv_cq()).id(), wr_id{9}) << "flushed";
}

TEST_F(cm_connections, the_client_notices_that_the_server_disconnected) {
  cm_conversation talk;

  talk.server.disconnect().value();

  EXPECT_TRUE(talk.client.wait_disconnected(patience).has_value());
  EXPECT_TRUE(talk.server.wait_disconnected(patience).has_value());
}

TEST_F(cm_connections, wait_completions_notices_that_the_peer_disconnected) {
  cm_conversation talk;
  const auto memory = talk.server.pd().allocate_local({.bytes = 64}).value();
  talk.server.qp().post(recv_wr{.id = wr_id{7}, .into = memory.scatter()}).value();
  talk.client.disconnect().value();
  std::array<work_completion, 4> room;
  std::size_t flushed = 0;
  // The receive completes before or after the event, depending on the device.
  while (!talk.server.is_down() || flushed == 0) {
    const auto found =
        talk.server.wait_completions(talk.server.qp().recv_cq(), room, patience).value();
    ASSERT_TRUE(!found.empty() || talk.server.is_down()) << "waited in vain";
    for (const auto& each : found) {
      EXPECT_EQ(each.id(), wr_id{7});
      EXPECT_EQ(each.status(), wc_status::flushed);
      ++flushed;
    }
  }
  EXPECT_EQ(flushed, 1U);
}

TEST_F(cm_connections, wait_completions_returns_completions_and_times_out) {
  cm_conversation talk;
  const auto memory = talk.server.pd().allocate_local({.bytes = 64}).value();
  talk.server.qp().post(recv_wr{.id = wr_id{7}, .into = memory.scatter()}).value();
  std::array<work_completion, 4> room;
  const auto& cq = talk.server.qp().recv_cq();
  EXPECT_EQ(talk.server.wait_completions(cq, room, 50ms).error(), std::errc::timed_out);
  EXPECT_FALSE(talk.server.is_down());
  auto waiting = std::async(std::launch::async,
                            [&] { return talk.server.wait_completions(cq, room, patience); });
  const auto from = talk.client.pd().allocate_local({.bytes = 64}).value();
  talk.client.qp().post(send_wr{.from = from.gather()}).value();
  const auto found = waiting.get().value();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().id(), wr_id{7});
  EXPECT_TRUE(found.front()) << found.front();
}

TEST_F(cm_connections, the_end_of_one_side_disconnects_the_other) {
  cm_conversation talk;
  EXPECT_EQ(talk.server.wait_disconnected(0ms).error(), std::errc::timed_out);

  talk.client = {};

  EXPECT_TRUE(talk.server.wait_disconnected(patience).has_value());
}

TEST_F(cm_connections, destroying_an_undecided_request_rejects_it) {
  const auto listener = cm::listen(own_address()).value();
  auto client = connecting(listener.local_address());

  ASSERT_TRUE(listener.get_request(patience).has_value());
  const auto refused = client.get();

  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().category(), error_category::peer) << refused.error();
}

TEST_F(cm_connections, destroying_a_listener_rejects_pending_requests) {
  auto listener = cm::listen(own_address()).value();
  auto first = connecting(listener.local_address());
  auto second = connecting(listener.local_address());
  ASSERT_TRUE(wait_readable(listener.fd(), patience).value());

  listener = {};

  EXPECT_FALSE(first.get().has_value());
  EXPECT_FALSE(second.get().has_value());
}

TEST_F(cm_connections, connections_outlive_their_listener) {
  cm_conversation talk;

  talk.listener = {};

  EXPECT_TRUE(bytes_pass(talk.client.qp(), talk.server.qp(), 7));
}

TEST_F(cm_connections, several_connections_exist_at_once) {
  const auto listener = cm::listen(own_address()).value();
  std::vector<cm::connection> clients;
  std::vector<cm::connection> servers;
  for (int i = 0; i < 4; ++i) {
    auto client = connecting(listener.local_address());
    servers.push_back(listener.accept({.timeout = patience}).value());
    clients.push_back(client.get().value());
  }

  for (std::size_t i = 0; i < clients.size(); ++i)
    EXPECT_TRUE(bytes_pass(clients[i].qp(), servers[i].qp(), 10 + i));
}

TEST_F(cm_connections, type_of_service_and_ack_timeout_reach_the_queue_pair) {
  if (iwarp()) GTEST_SKIP() << "the device lacks attributes of RoCE: iWARP runs over TCP";
  const cm_conversation talk(
      own_address(),
      {.id = {.type_of_service = 0x48, .ack_timeout = ack_timeout::from_exponent(17)}});

  const auto attributes = talk.client.qp().query().value();

  EXPECT_EQ(attributes.path->traffic_class, 0x48);
  EXPECT_EQ(attributes.ack_timeout, ack_timeout::from_exponent(17));
  EXPECT_TRUE(bytes_pass(talk.client.qp(), talk.server.qp(), 8));
}

TEST_F(cm_connections, an_address_can_be_reused) {
  const auto channel = event_channel::create().value();
  const auto first = channel.create_id().value();
  const auto second = channel.create_id().value();
  for (const auto* id : {&first, &second}) id->set({.reuse_address = true}).value();
  first.bind(own_address()).value();

  EXPECT_TRUE(second.bind(first.local_address()).has_value());
}

}  // namespace
}  // namespace rdmaxx::device_tests
