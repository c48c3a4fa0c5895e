// stream_listener: a peer that stops half-way delays no other, and an error of a peer differs from
// a timeout.

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <softverbs/faults.hpp>

#include <rdmaxx/rdmaxx.hpp>

#include "child_process.hpp"
#include "cm_conversation.hpp"
#include "completion_waiter.hpp"
#include "slow_peer.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// One that greets like a stream.
slow_peer slow_peer_at(const stream_listener& waiting) {
  const auto hello = stream_protocol::greeting{.window = stream_options().window}.to_bytes();
  return slow_peer(waiting.local_address(), hello);
}

std::future<result<stream>> asking(const stream_listener& waiting) {
  return std::async(std::launch::async, [at = waiting.local_address()] {
    return stream::connect(at, {.connect_timeout = patience});
  });
}

void expect_served(const stream_listener& waiting) {
  auto connecting = asking(waiting);
  auto server = waiting.accept(patience).value();
  auto client = connecting.get().value();
  std::array<std::byte, 10> message{};
  client.write_all(message).value();
  server.read_exactly(message).value();
}

void expect_peers_failure(const result<stream>& accepted) {
  ASSERT_FALSE(accepted.has_value());
  EXPECT_EQ(accepted.error().category(), error_category::peer) << accepted.error();
  EXPECT_NE(accepted.error(), std::errc::timed_out) << "that nobody came";
}

TEST(stream_listener, a_slow_peer_delays_no_other) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto waiting =
      stream_listener::listen(own_address(), {.connect_timeout = patience}).value();
  const auto slow = slow_peer_at(waiting);
  wait_until("the request", [&] { return wait_readable(waiting.fd(), 1s).value(); });
  for (int i = 0; i < 3; ++i) expect_served(waiting);
  slow.expect_accepted();
  const auto nobody = waiting.accept(50ms);
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error(), std::errc::timed_out);
  EXPECT_EQ(nobody.error().category(), error_category::retryable);
}

TEST(stream_listener, a_slow_peer_times_out_with_an_error_of_category_peer) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto waiting = stream_listener::listen(own_address(), {.connect_timeout = 300ms}).value();
  const auto slow = slow_peer_at(waiting);
  expect_peers_failure(waiting.accept(patience));
  const auto nobody = waiting.accept(50ms);
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error(), std::errc::timed_out);
  expect_served(waiting);
}

TEST(stream_listener, its_descriptor_reports_the_timeout_of_a_slow_peer) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto waiting = stream_listener::listen(own_address(), {.connect_timeout = 300ms}).value();
  const auto slow = slow_peer_at(waiting);
  ASSERT_TRUE(wait_readable(waiting.fd(), patience).value());
  while (wait_readable(waiting.fd(), 0ms).value())
    ASSERT_FALSE(waiting.try_accept().value().has_value());
  ASSERT_TRUE(wait_readable(waiting.fd(), patience).value());
  EXPECT_EQ(waiting.try_accept().error().category(), error_category::peer);
}

TEST(stream_listener, half_open_peers_are_limited_and_further_requests_wait) {
  RDMAXX_NEEDS(capability::manual_connection);
  const stream_options small{.window = {.buffers = 8, .buffer_bytes = 4096},
                             .send_buffers = 2,
                             .send_buffer_bytes = 4096,
                             .connect_timeout = 3s};
  const auto waiting = stream_listener::listen(own_address(), small).value();
  std::vector<slow_peer> slow;
  slow.reserve(stream_listener::max_half_open);
  while (slow.size() < stream_listener::max_half_open) slow.push_back(slow_peer_at(waiting));
  auto answered = std::async(std::launch::async, [&] {
    for (const auto& each : slow) each.expect_accepted();
  });
  while (answered.wait_for(1ms) != std::future_status::ready)
    ASSERT_FALSE(waiting.try_accept().value().has_value());
  answered.get();
  auto connecting = asking(waiting);
  // Full: there is nothing to do until a peer times out, and no thread spins meanwhile.
  std::size_t failures = 0;
  for (;;) {
    auto next = waiting.accept(patience);
    if (next) break;
    expect_peers_failure(next);
    ++failures;
  }
  EXPECT_GE(failures, 1U);
  EXPECT_TRUE(connecting.get().has_value());
}

TEST(stream_listener, the_echo_server_survives_a_client_that_stops_half_way) {
  RDMAXX_NEEDS(capability::faults);
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  const auto examples = self.parent_path().parent_path() / "examples";
  child_process server({examples / "04_echo_server", describe(own_address())});
  const auto address = server.line().substr(std::string("listening on ").size());
  child_process faulty({"/usr/bin/env", "SOFTVERBS_FAULTS=lose cm=RTU; lose op=SEND",
                        examples / "05_echo_client", address, "never", "heard"});
  const auto expect_echo = [&] {
    child_process client({examples / "05_echo_client", address, "some", "words"});
    const auto output = client.output();
    EXPECT_EQ(client.wait(), 0) << output;
    EXPECT_EQ(output, "some words\n");
  };
  expect_echo();
  EXPECT_THAT(server.line(), HasSubstr("accepting a stream of"));  // when its ten seconds are over
  expect_echo();
}

}  // namespace

}  // namespace rdmaxx::device_tests
