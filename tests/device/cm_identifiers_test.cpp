// cm_id, cm_event and event_channel by themselves: the steps of a connection, other channels,
// threads, and destruction in every order.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "cm_conversation.hpp"
#include "completion_waiter.hpp"
#include "device_under_test.hpp"
#include "open_descriptors.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

class cm_identifiers : public ::testing::Test {
 protected:
  /// An identifier that listens and reports to `channel`.
  [[nodiscard]] static cm_id listening_id(const event_channel& channel) {
    auto id = channel.create_id().value();
    id.bind(own_address()).value();
    id.listen().value();
    return id;
  }

  /// One that has requested a connection from `listener`.
  [[nodiscard]] static cm_id asking_id(const event_channel& channel, const cm_id& listener) {
    auto id = resolved_id(channel, listener.local_address());
    id.create_qp().value();
    id.connect({.private_data = question}).value();
    return id;
  }

  static inline const std::vector<std::byte> question = bytes_of("may I?");
};

TEST_F(cm_identifiers, the_steps_of_a_connection_report_their_events) {
  const auto active = event_channel::create().value();
  const auto passive = event_channel::create().value();
  const auto listener = listening_id(passive);
  auto client = active.create_id(port_space::tcp).value();

  client.resolve_addr(listener.local_address(), patience).value();
  {
    const auto event = expect_event(active, cm_event_type::addr_resolved);
    EXPECT_TRUE(event.concerns(client));
    EXPECT_EQ(event.status(), 0);
    EXPECT_TRUE(event.outcome().has_value());
  }
  EXPECT_EQ(client.context().value().device_name(), device_under_test::get().name());
  EXPECT_EQ(client.port(), 1);
  client.resolve_route(patience).value();
  expect_event(active, cm_event_type::route_resolved).acknowledge();
  client.create_qp({.capabilities = {.max_send_wr = 3}}).value();
  EXPECT_EQ(client.qp().type(), qp_type::rc);
  client.connect({.private_data = question}).value();

  auto request = expect_event(passive, cm_event_type::connect_request);
  EXPECT_TRUE(request.concerns(listener));
  EXPECT_EQ(text_of(request.private_data()), "may I?");
  auto server = request.take_id().value();
  request.acknowledge();
  EXPECT_TRUE(request.private_data().empty());
  EXPECT_EQ(request.type(), cm_event_type::connect_request) << "it stays";
  EXPECT_EQ(server.channel(), passive);
  server.create_qp().value();
  const auto answer = bytes_of("please do");
  server.accept({.private_data = answer}).value();
  {
    const auto established = expect_event(active, cm_event_type::established);
    EXPECT_TRUE(established.concerns(client));
    EXPECT_EQ(text_of(established.private_data()), "please do");
  }
  EXPECT_TRUE(expect_event(passive, cm_event_type::established).concerns(server));
  EXPECT_TRUE(bytes_pass(client.qp(), server.qp(), 20));

  client.disconnect().value();
  EXPECT_TRUE(expect_event(passive, cm_event_type::disconnected).concerns(server));
  (void)server.disconnect();
  EXPECT_TRUE(expect_event(active, cm_event_type::disconnected).concerns(client));
}

TEST_F(cm_identifiers, identifiers_of_every_port_space_can_be_made) {
  const auto channel = event_channel::create().value();

  for (const auto space : {port_space::tcp, port_space::udp, port_space::ipoib, port_space::ib}) {
    const auto id = channel.create_id(space);
    ASSERT_TRUE(id.has_value()) << space << ": " << id.error();
    EXPECT_EQ(id->space(), space);
    EXPECT_NE(describe(*id).find(describe(space)), std::string::npos) << *id;
  }
}

TEST_F(cm_identifiers, one_without_an_address_has_no_device) {
  const auto id = event_channel::create().value().create_id().value();

  EXPECT_FALSE(id.context().has_value());
  EXPECT_FALSE(id.create_qp().has_value());
  EXPECT_FALSE(id.qp());
  EXPECT_FALSE(id.pd());
  EXPECT_EQ(id.local_address().port(), 0);
}

TEST_F(cm_identifiers, a_port_is_found_when_none_is_asked_for) {
  const auto id = event_channel::create().value().create_id().value();

  id.bind(own_address()).value();

  EXPECT_NE(id.local_address().port(), 0);
  EXPECT_EQ(id.local_address().host(), own_address().host());
  if (own_address_is_loopback()) {
    EXPECT_FALSE(id.context().has_value()) << "it leads nowhere as yet";
  } else {
    EXPECT_EQ(id.context().value().device_name(), device_under_test::get().name());
  }
}

TEST_F(cm_identifiers, a_second_queue_pair_is_refused) {
  const auto id = resolved_id(event_channel::create().value(), own_address(1));
  id.create_qp().value();

  EXPECT_FALSE(id.create_qp().has_value());
  EXPECT_TRUE(id.qp());
}

TEST_F(cm_identifiers, an_impossible_queue_pair_is_explained) {
  const auto id = resolved_id(event_channel::create().value(), own_address(1));

  const auto refused = id.create_qp({.capabilities = {.max_send_sge = 100'000}});

  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("max_send_sge 100000 exceeds"), std::string::npos)
      << refused.error();
  EXPECT_TRUE(id.create_qp().has_value()) << "another one can be tried";
}

TEST_F(cm_identifiers, waiting_times_out) {
  const auto channel = event_channel::create().value();

  EXPECT_FALSE(channel.try_get_event().value().has_value());
  EXPECT_EQ(channel.get_event(10ms).error(), std::errc::timed_out);
}

TEST_F(cm_identifiers, only_a_request_has_a_new_identifier) {
  const auto channel = event_channel::create().value();
  const auto listener = listening_id(channel);
  const auto client = channel.create_id().value();
  client.resolve_addr(listener.local_address(), patience).value();

  auto event = expect_event(channel, cm_event_type::addr_resolved);

  EXPECT_FALSE(event.take_id().has_value());
}

TEST_F(cm_identifiers, the_new_identifier_can_be_taken_once) {
  const auto channel = event_channel::create().value();
  const auto passive = event_channel::create().value();
  const auto listener = listening_id(passive);
  const auto client = asking_id(channel, listener);
  auto request = expect_event(passive, cm_event_type::connect_request);

  EXPECT_TRUE(request.take_id().has_value());
  EXPECT_FALSE(request.take_id().has_value());
}

TEST_F(cm_identifiers, events_follow_to_another_channel) {
  const auto first = event_channel::create().value();
  const auto second = event_channel::create().value();
  const auto passive = event_channel::create().value();
  const auto listener = listening_id(passive);
  const auto client = resolved_id(first, listener.local_address());
  client.create_qp().value();

  client.migrate(second).value();
  EXPECT_EQ(client.channel(), second);
  client.connect().value();
  const auto server = expect_event(passive, cm_event_type::connect_request).take_id().value();
  server.reject().value();

  EXPECT_TRUE(expect_event(second, cm_event_type::rejected).concerns(client));
  EXPECT_FALSE(first.try_get_event().value().has_value());
}

TEST_F(cm_identifiers, pending_events_follow_to_another_channel) {
  const auto first = event_channel::create().value();
  const auto second = event_channel::create().value();
  const auto listener = listening_id(first);
  const auto client = first.create_id().value();
  client.resolve_addr(listener.local_address(), patience).value();
  ASSERT_TRUE(wait_readable(first.fd(), patience).value());

  client.migrate(second).value();

  EXPECT_TRUE(expect_event(second, cm_event_type::addr_resolved).concerns(client));
}

TEST_F(cm_identifiers, migrating_does_not_wait_for_an_event_of_this_thread) {
  const auto first = event_channel::create().value();
  const auto second = event_channel::create().value();
  const auto listener = listening_id(first);
  const auto client = first.create_id().value();
  client.resolve_addr(listener.local_address(), patience).value();
  auto held = expect_event(first, cm_event_type::addr_resolved);

  const auto refused = client.migrate(second);

  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error() == std::errc::device_or_resource_busy) << refused.error();
  held.acknowledge();
  EXPECT_TRUE(client.migrate(second).has_value());
}

TEST_F(cm_identifiers, a_queue_pair_that_was_taken_keeps_the_connection) {
  cm_conversation talk;
  auto client = std::move(talk.client).release();
  auto qp = client.take_qp();
  EXPECT_FALSE(client.qp());

  client = {};

  EXPECT_TRUE(bytes_pass(qp, talk.server.qp(), 30));
  EXPECT_EQ(talk.server.wait_disconnected(0ms).error(), std::errc::timed_out);
  qp = {};
  EXPECT_TRUE(talk.server.wait_disconnected(patience).has_value());
}

TEST_F(cm_identifiers, adopted_ones_are_destroyed_or_left_as_told) {
  auto* const foreign = rdma_create_event_channel();
  ASSERT_NE(foreign, nullptr);
  rdma_cm_id* lent = nullptr;
  rdma_cm_id* given = nullptr;
  ASSERT_EQ(rdma_create_id(foreign, &lent, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(rdma_create_id(foreign, &given, nullptr, RDMA_PS_TCP), 0);
  {
    const auto channel = event_channel::adopt(foreign, {.kind = ownership::borrowed}).value();
    const auto owned = channel.adopt_id(given).value();
    const auto borrowed = channel.adopt_id(lent, {.kind = ownership::borrowed}).value();
    borrowed.bind(own_address()).value();
    borrowed.listen().value();
    owned.resolve_addr(borrowed.local_address(), patience).value();
    EXPECT_TRUE(expect_event(channel, cm_event_type::addr_resolved).concerns(owned));
    EXPECT_FALSE(event_channel::create().value().adopt_id(lent).has_value());
  }
  EXPECT_NE(rdma_get_src_port(lent), 0);
  EXPECT_EQ(rdma_destroy_id(lent), 0);
  rdma_destroy_event_channel(foreign);
}

TEST_F(cm_identifiers, events_about_foreign_identifiers_are_handed_on) {
  const auto channel = event_channel::create().value();
  rdma_cm_id* foreign = nullptr;
  ASSERT_EQ(rdma_create_id(channel.native(), &foreign, nullptr, RDMA_PS_TCP), 0);
  const auto listener = listening_id(channel);
  // The C function reads through the pointer only.
  const auto there = listener.local_address();
  ASSERT_EQ(rdma_resolve_addr(foreign, nullptr, const_cast<sockaddr*>(there.native()), 5000), 0);
  {
    const auto event = expect_event(channel, cm_event_type::addr_resolved);
    EXPECT_FALSE(event.concerns(listener));
    EXPECT_EQ(event.native()->id, foreign);
  }
  EXPECT_EQ(rdma_destroy_id(foreign), 0);
}

TEST_F(cm_identifiers, destruction_with_unacknowledged_events_works_in_every_order) {
  {
    const cm_conversation opens_what_stays_open;
  }
  const auto before = open_descriptors().size();
  std::array order{0, 1, 2, 3, 4};
  do {
    auto channel = std::optional(event_channel::create().value());
    auto listener = std::optional(listening_id(*channel));
    auto client = asking_id(event_channel::create().value(), *listener);
    auto request = std::optional(expect_event(*channel, cm_event_type::connect_request));
    auto server = std::optional(request->take_id().value());
    server->create_qp().value();
    // In a thread of its own: on iWARP it waits for the answer.
    std::jthread client_end;
    const std::array<std::function<void()>, 5> ends{
        [&] { channel.reset(); }, [&] { listener.reset(); },
        [&] { client_end = std::jthread([ended = std::move(client)] {}); },
        [&] { request.reset(); }, [&] { server.reset(); }};

    for (const int which : order) ends.at(static_cast<std::size_t>(which))();
  } while (std::ranges::next_permutation(order).found);
  wait_until("descriptors to be closed", [&] { return open_descriptors().size() <= before; });
}

TEST_F(cm_identifiers, a_request_that_is_not_taken_is_rejected_when_its_event_ends) {
  const auto active = event_channel::create().value();
  const auto passive = event_channel::create().value();
  auto listener = listening_id(passive);
  const auto client = asking_id(active, listener);
  {
    const auto request = expect_event(passive, cm_event_type::connect_request);
    listener = {};  // the event keeps it
    EXPECT_EQ(text_of(request.private_data()), "may I?");
  }

  const auto refused = expect_event(active, cm_event_type::rejected);

  EXPECT_FALSE(refused.outcome().has_value());
  EXPECT_EQ(refused.outcome().error().category(), error_category::peer);
}

TEST_F(cm_identifiers, one_that_is_destroyed_in_the_middle_of_a_step_raises_no_event) {
  const auto channel = event_channel::create().value();
  const auto listener = listening_id(channel);
  for (int i = 0; i < 20; ++i) {
    const auto id = channel.create_id().value();
    id.resolve_addr(listener.local_address(), patience).value();
  }

  EXPECT_FALSE(channel.try_get_event().value().has_value());
}

TEST_F(cm_identifiers, one_thread_waits_while_another_makes_uses_and_destroys) {
  constexpr int rounds = 50;
  const auto channel = event_channel::create().value();
  const auto listener = listening_id(channel);
  std::atomic<int> events = 0;
  std::atomic<bool> done = false;
  // Events are destroyed at once, or long after their identifiers.
  std::jthread waiter([&] {
    std::vector<cm_event> kept;
    while (!done) {
      auto event = channel.get_event(20ms);
      if (!event) continue;
      ++events;
      if (events % 3 == 0) kept.push_back(std::move(*event));
    }
  });

  std::optional<cm_id> last;
  for (int i = 0; i < rounds; ++i) {
    auto id = channel.create_id().value();
    const int seen = events;
    id.resolve_addr(listener.local_address(), patience).value();
    // Some are destroyed while their event is on its way, some after it was fetched.
    if (i % 2 == 0) wait_until("an event", [&] { return events > seen; });
    last = std::move(id);
  }
  last.reset();
  done = true;
  waiter.join();

  EXPECT_GE(events, rounds / 2);
}

TEST_F(cm_identifiers, queue_pairs_are_destroyed_while_another_thread_fetches_their_answers) {
  const auto active = event_channel::create().value();
  const auto passive = event_channel::create().value();
  const auto listener = listening_id(passive);
  std::atomic<bool> done = false;
  std::jthread waiter([&] {
    while (!done) {
      if (auto event = active.get_event(20ms)) event->acknowledge();
    }
  });
  std::jthread server([&] {
    while (!done) {
      auto event = passive.get_event(20ms);
      if (!event || event->type() != cm_event_type::connect_request) continue;
      const auto id = event->take_id().value();
      // Both fail if the client has gone already.
      if (id.create_qp()) (void)id.accept();
    }
  });

  const auto resolving = event_channel::create().value();
  for (int i = 0; i < 20; ++i) {
    const auto id = resolved_id(resolving, listener.local_address());
    id.create_qp().value();
    id.migrate(active).value();
    id.connect().value();
    // Its answer is on its way when it ends.
    if (i % 4 == 0) std::this_thread::yield();
  }
  done = true;
}

}  // namespace
}  // namespace rdmaxx::device_tests
