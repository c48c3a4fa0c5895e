// cm::listener: a peer that stops half-way delays no other.

#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "cm_conversation.hpp"
#include "completion_waiter.hpp"
#include "slow_peer.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

std::future<result<cm::connection>> asking(const cm::listener& waiting) {
  return std::async(std::launch::async, [at = waiting.local_address()] {
    return cm::connect(at, {.timeout = patience});
  });
}

void expect_served(const cm::listener& waiting) {
  auto connecting = asking(waiting);
  const auto server = waiting.accept({.timeout = patience}).value();
  const auto client = connecting.get().value();
  EXPECT_TRUE(bytes_pass(client.qp(), server.qp(), 1));
}

TEST(cm_listener, a_slow_peer_delays_no_other) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto waiting = cm::listen(own_address()).value();
  const slow_peer slow(waiting.local_address());
  ASSERT_TRUE(wait_readable(waiting.fd(), patience).value());

  for (int i = 0; i < 3; ++i) expect_served(waiting);

  slow.expect_accepted();
  EXPECT_EQ(waiting.accept({.timeout = 50ms}).error(), std::errc::timed_out)
      << "nobody else has come";
}

TEST(cm_listener, a_slow_peer_times_out_with_an_error_of_category_peer) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto waiting = cm::listen(own_address()).value();
  const slow_peer slow(waiting.local_address());

  // The call may end before or after the peer's timeout.
  auto next = waiting.accept({.timeout = 300ms});
  for (int again = 0; again < 30 && !next && next.error() == std::errc::timed_out; ++again)
    next = waiting.accept({.timeout = 1s});

  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().category(), error_category::peer) << next.error();
  EXPECT_NE(next.error(), std::errc::timed_out) << "that says that nobody came";
  expect_served(waiting);
}

TEST(cm_listener, its_descriptor_reports_the_timeout_of_a_slow_peer) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto waiting = cm::listen(own_address()).value();
  const slow_peer slow(waiting.local_address());
  const cm::accept_options soon{.timeout = 300ms};
  ASSERT_TRUE(wait_readable(waiting.fd(), patience).value());
  while (wait_readable(waiting.fd(), 0ms).value())
    ASSERT_FALSE(waiting.try_accept(soon).value().has_value());

  ASSERT_TRUE(wait_readable(waiting.fd(), patience).value());

  EXPECT_EQ(waiting.try_accept(soon).error().category(), error_category::peer);
}

TEST(cm_listener, half_open_peers_are_limited_and_further_requests_wait) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto waiting = cm::listen(own_address()).value();
  const cm::accept_options options{.qp = {.capabilities = {.max_send_wr = 4, .max_recv_wr = 4}},
                                   .timeout = 2s};
  std::vector<slow_peer> slow;
  slow.reserve(cm::listener::max_half_open);
  while (slow.size() < cm::listener::max_half_open) slow.emplace_back(waiting.local_address());
  auto answered = std::async(std::launch::async, [&] {
    for (const auto& each : slow) each.expect_accepted();
  });
  std::size_t failures = 0;
  const auto count_failure = [&](const auto& tried) {
    if (tried || tried.error() == std::errc::timed_out) return;
    EXPECT_EQ(tried.error().category(), error_category::peer) << tried.error();
    ++failures;
  };
  while (answered.wait_for(1ms) != std::future_status::ready)
    count_failure(waiting.try_accept(options));
  answered.get();
  auto connecting = asking(waiting);

  std::optional<cm::connection> server;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!server && std::chrono::steady_clock::now() < end) {
    auto next = waiting.accept(options);
    count_failure(next);
    if (next) server = std::move(*next);
  }

  EXPECT_TRUE(server.has_value()) << "served after a slow peer timed out";
  EXPECT_GE(failures, 1U);
  EXPECT_TRUE(connecting.get().has_value());
}

TEST(cm_listener, its_destructor_rejects_half_open_peers) {
  RDMAXX_NEEDS(capability::manual_connection);
  auto waiting = cm::listen(own_address()).value();
  const slow_peer slow(waiting.local_address());
  ASSERT_TRUE(wait_readable(waiting.fd(), patience).value());
  ASSERT_FALSE(waiting.try_accept({.timeout = patience}).value().has_value());

  waiting = {};

  EXPECT_FALSE(waiting);
}

TEST(cm_listener, threads_share_it_and_each_gets_its_own_connections) {
  constexpr std::size_t peers = 6;
  const auto waiting = cm::listen(own_address()).value();
  const auto serve = [&] { return waiting.accept({.timeout = patience}); };
  std::vector<std::future<result<cm::connection>>> servers;
  std::vector<std::future<result<cm::connection>>> clients;
  for (std::size_t i = 0; i < peers; ++i) {
    servers.push_back(std::async(std::launch::async, serve));
    clients.push_back(asking(waiting));
  }

  for (auto& each : clients) EXPECT_TRUE(each.get().has_value());
  for (auto& each : servers) EXPECT_TRUE(each.get().has_value());
}

}  // namespace

}  // namespace rdmaxx::device_tests
