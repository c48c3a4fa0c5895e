// Streams that share queues and memory: the same behaviour, almost no cost while idle, and no
// stream is delayed by another one or its peer.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <future>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>
#include <poll.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "hand_made_peer.hpp"
#include "stream_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

bool is_soft() { return device_under_test::get().has(capability::faults); }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

stream_options grouped(const stream_group& group) {
  return {.read_timeout = patience,
          .write_timeout = patience,
          .connect_timeout = patience,
          .group = group};
}

stream_group group_of(std::uint32_t streams) {
  return stream_group::create({.streams = streams}).value();
}

/// Both ways at once, more than all buffers hold.
void expect_bytes_both_ways(stream& one, stream& other, std::size_t count) {
  const auto there = pattern(count, 1);
  const auto back = pattern(count, 2);
  auto written = std::async(std::launch::async, [&] { return one.write_all(there); });
  auto written_back = std::async(std::launch::async, [&] { return other.write_all(back); });
  std::vector<std::byte> at_one(count);
  std::vector<std::byte> at_other(count);
  auto read = std::async(std::launch::async, [&] { return other.read_exactly(at_other); });
  one.read_exactly(at_one).value();
  read.get().value();
  written.get().value();
  written_back.get().value();
  EXPECT_TRUE(same_bytes(at_one, back));
  EXPECT_TRUE(same_bytes(at_other, there));
}

void expect_echo(stream& client, stream& server, std::uint64_t seed, std::size_t bytes = 100) {
  const auto message = pattern(bytes, seed);
  std::vector<std::byte> got(bytes);
  client.write_all(message).value();
  server.read_exactly(got).value();
  ASSERT_TRUE(same_bytes(got, message));
  server.write_all(message).value();
  client.read_exactly(got).value();
  ASSERT_TRUE(same_bytes(got, message));
}

struct many_pairs {
  std::vector<stream> servers;
  std::vector<stream> clients;

  many_pairs(std::size_t count, const stream_options& options) {
    const auto waiting = stream_listener::listen(own_address(), options).value();
    for (std::size_t i = 0; i < count; ++i) {
      auto asking = std::async(std::launch::async,
                               [&] { return stream::connect(waiting.local_address(), options); });
      auto accepted = waiting.accept(patience);
      auto connected = asking.get();
      if (!connected || !accepted) {
        ADD_FAILURE() << i << ": " << (connected ? accepted.error() : connected.error());
        return;
      }
      servers.push_back(*std::move(accepted));
      clients.push_back(*std::move(connected));
    }
  }
};

/// Both ends of connections with queue pairs like this one, but no streams.
std::vector<cm::connection> bare_connections(std::size_t count, const queue_pair& like) {
  const cm_qp_config config{.pd = like.pd(),
                            .send_cq = like.send_cq(),
                            .recv_cq = like.recv_cq(),
                            .capabilities = like.capabilities(),
                            .srq = like.pd().create_srq({.capacity = 4}).value()};
  const auto events = event_channel::create().value();
  const auto waiting = cm::listen(own_address()).value();
  std::vector<cm::connection> all;
  for (std::size_t i = 0; i < count; ++i) {
    auto accepting = std::async(
        std::launch::async, [&] { return waiting.accept({.qp = config, .timeout = patience}); });
    all.push_back(cm::connect(waiting.local_address(), {.qp = config}).value());
    all.push_back(accepting.get().value());
  }
  for (const auto& each : all) each.id().migrate(events).value();
  return all;
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

}  // namespace

TEST(stream_group, moves_bytes_both_ways) {
  const auto group = group_of(8);
  stream_pair pair(grouped(group));
  expect_bytes_both_ways(pair.client, pair.server, is_soft() ? 4'000'000 : 400'000);
  EXPECT_EQ(group.streams(), 2U);
}

TEST(stream_group, talks_to_a_stream_without_a_group) {
  const auto group = group_of(2);
  stream_pair pair(grouped(group), {.read_timeout = patience, .write_timeout = patience});
  expect_bytes_both_ways(pair.client, pair.server, 400'000);
  stream_pair other_way({.read_timeout = patience, .write_timeout = patience}, grouped(group));
  expect_bytes_both_ways(other_way.client, other_way.server, 400'000);
}

TEST(stream_group, ends_and_closes_like_a_stream_without_a_group) {
  const auto group = group_of(4);
  stream_pair pair(grouped(group));
  pair.client.write_all(pattern(1000, 3)).value();
  pair.client.shutdown(direction::write);
  std::vector<std::byte> got(1000);
  pair.server.read_exactly(got).value();
  EXPECT_EQ(pair.server.read(got).value(), 0U);
  auto closing = std::async(std::launch::async, [&] { return pair.client.close(patience); });
  pair.server.close(patience).value();
  closing.get().value();
}

TEST(stream_group, sends_from_memory_of_the_caller) {
  const auto group = group_of(4);
  stream_pair pair(grouped(group));
  const auto region = pair.client.native().qp.pd().allocate_local({.bytes = 200'000}).value();
  fill_pattern(region.bytes(), 9);
  auto writing =
      std::async(std::launch::async, [&] { return pair.client.write_all(region, region.bytes()); });
  std::vector<std::byte> got(region.size());
  pair.server.read_exactly(got).value();
  writing.get().value();
  EXPECT_TRUE(same_bytes(got, region.bytes()));
}

TEST(stream_group, is_full_at_its_limit_and_has_room_when_a_stream_ends) {
  const auto group = group_of(2);
  const auto waiting = stream_listener::listen(own_address()).value();
  auto accepting = std::async(std::launch::async, [&] {
    std::vector<stream> accepted;
    while (accepted.size() < 3) accepted.push_back(waiting.accept(patience).value());
    return accepted;
  });
  auto first = stream::connect(waiting.local_address(), grouped(group)).value();
  auto second = stream::connect(waiting.local_address(), grouped(group)).value();
  const auto third = stream::connect(waiting.local_address(), grouped(group));
  ASSERT_FALSE(third.has_value());
  EXPECT_EQ(third.error().category(), error_category::resources) << third.error();
  EXPECT_NE(std::string(third.error().hint()).find("stream_group_config::streams"),
            std::string::npos);
  first.abort();
  {
    const auto gone = std::move(first);
  }
  auto in_its_place = stream::connect(waiting.local_address(), grouped(group)).value();
  auto servers = accepting.get();
  expect_echo(in_its_place, servers.back(), 1);
  expect_echo(second, servers[1], 2);
}

TEST(stream_group, a_peer_that_does_not_read_delays_no_other_stream) {
  const auto group = stream_group::create({.streams = 8, .send_buffers = 8}).value();
  stream_pair stuck(grouped(group));
  stream_pair moving(grouped(group));
  std::size_t taken = 0;
  const auto block = pattern(100'000, 4);
  while (const auto count = stuck.client.try_write(block).value()) taken += *count;
  EXPECT_GT(taken, 0U);
  expect_bytes_both_ways(moving.client, moving.server, 300'000);
  std::vector<std::byte> rest(taken);
  stuck.server.read_exactly(rest).value();
  expect_echo(stuck.client, stuck.server, 5);
}

TEST(stream_group, streams_that_end_early_return_their_resources) {
  const auto group = stream_group::create({.streams = 8, .spare_receive_buffers = 16}).value();
  stream_pair lasting(grouped(group));
  const auto block = pattern(200'000, 6);
  for (int round = 0; round < 10; ++round) {
    stream_pair short_lived(grouped(group));
    auto writing = std::async(std::launch::async,
                              [&] { return short_lived.client.write_all(block).has_value(); });
    std::vector<std::byte> some(1000 + 10'000 * static_cast<std::size_t>(round % 3));
    short_lived.server.read_exactly(some).value();
    short_lived.server.abort();
    EXPECT_FALSE(writing.get());
  }
  EXPECT_EQ(group.streams(), 2U);
  expect_bytes_both_ways(lasting.client, lasting.server, 300'000);
}

TEST(stream_group, threads_wait_for_streams_of_their_own) {
  const auto group = group_of(32);
  many_pairs pairs(8, grouped(group));
  ASSERT_FALSE(::testing::Test::HasFailure());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < pairs.clients.size(); ++i) {
    threads.emplace_back([&server = pairs.servers[i]] {
      std::vector<std::byte> message(3000);
      while (server.read_exactly(message)) server.write_all(message).value();
    });
    threads.emplace_back([&client = pairs.clients[i], i] {
      std::vector<std::byte> got(3000);
      for (std::uint64_t round = 0; round < 50; ++round) {
        const auto message = pattern(got.size(), 100 * i + round);
        client.write_all(message).value();
        client.read_exactly(got).value();
        ASSERT_TRUE(same_bytes(got, message));
      }
      client.shutdown(direction::write);
    });
  }
}

TEST(stream_group, a_descriptor_reports_arrivals) {
  const auto group = group_of(4);
  stream_pair watched(grouped(group));
  stream_pair other(grouped(group));
  const auto fd = watched.server.fd().value();
  std::array<std::byte, 100> got{};
  ASSERT_FALSE(watched.server.try_read(got).value().has_value());
  auto writing = std::async(std::launch::async, [&] {
    expect_echo(other.client, other.server, 1);  // takes events of the shared queues
    return watched.client.write_all(pattern(100, 7));
  });
  std::size_t count = 0;
  while (count < got.size()) {
    pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&one, 1, static_cast<int>(std::chrono::milliseconds(patience).count())), 1);
    if (const auto read = watched.server.try_read(std::span(got).subspan(count)).value())
      count += *read;
  }
  writing.get().value();
  EXPECT_TRUE(same_bytes(got, pattern(100, 7)));
}

TEST(stream_group, a_peer_that_sends_without_a_credit_is_disconnected_and_the_others_continue) {
  const auto group = group_of(8);
  stream_pair honest(grouped(group));
  const auto waiting = stream_listener::listen(own_address(), grouped(group)).value();
  auto accepting = std::async(std::launch::async, [&] { return waiting.accept(patience); });
  hand_made_peer peer(waiting.local_address());
  auto server = accepting.get().value();
  const std::array<std::byte, 64> bytes{};
  for (std::uint32_t i = 0; i <= peer.credits(); ++i) peer.send(peer.header(64), bytes);
  std::array<std::byte, 1000> got{};
  result<std::size_t> outcome = 1;
  while (outcome && *outcome != 0) outcome = server.read(got);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error(), std::errc::protocol_error) << outcome.error();
  expect_bytes_both_ways(honest.client, honest.server, 100'000);
}

TEST(stream_group, an_idle_stream_needs_no_descriptor) {
  constexpr std::uint32_t streams = 32;
  const auto options = grouped(group_of(streams + 2));
  many_pairs first(1, options);  // makes the resources
  const auto before = open_descriptors();
  many_pairs more(streams / 2, options);
  ASSERT_FALSE(::testing::Test::HasFailure());
  EXPECT_EQ(open_descriptors(), before);
  for (std::size_t i = 0; i < more.clients.size(); ++i)
    expect_echo(more.clients[i], more.servers[i], i, 10'000);
}

TEST(stream_group, an_idle_stream_needs_at_most_20_KiB) {
  if (!is_soft()) GTEST_SKIP() << "the same as on soft0, where the kernel's limits do not matter";
  // Registered memory: what one stream more makes the group larger.
  constexpr std::uint32_t streams = 128;
  const auto larger = grouped(group_of(streams + 2));
  const auto smaller = grouped(group_of(streams / 2 + 2));
  many_pairs first(1, larger);
  {
    const many_pairs other(1, smaller);
  }
  const auto registered = (larger.group.registered_bytes() - smaller.group.registered_bytes()) /
                          (streams - streams / 2);
  // Of the rest, what connections without streams, on the same kind of queue pair, do not need.
  const auto before_streams = ::mallinfo2();
  const many_pairs pairs(streams / 2, larger);
  const auto after_streams = ::mallinfo2();
  const auto connections = bare_connections(streams / 2, first.clients.front().native().qp);
  const auto after_connections = ::mallinfo2();
  ASSERT_FALSE(::testing::Test::HasFailure());
  const auto of_streams = after_streams.uordblks - before_streams.uordblks;
  const auto of_connections = after_connections.uordblks - after_streams.uordblks;
  const auto allocated = static_cast<std::ptrdiff_t>(of_streams - of_connections) / streams;
  std::printf("an idle stream: %td bytes allocated, %zu registered\n", allocated, registered);
  if (is_sanitized) GTEST_SKIP() << "the sanitizer's allocator does not tell what is allocated";
  EXPECT_LE(allocated + static_cast<std::ptrdiff_t>(registered), 20 * 1024);
}

TEST(stream_group, carries_thousands_of_streams_in_one_process) {
  if (!device_under_test::get().has(capability::atomics))
    GTEST_SKIP() << "siw maps at most 144 queues into a process";
  // Both ends are here, so each pair is two. Sanitizers need long for each.
  const std::uint32_t many = is_soft() ? 4000 : 1000;
  const std::uint32_t streams = is_sanitized ? 100 : many;
  const auto options = grouped(group_of(streams));
  many_pairs pairs(streams / 2, options);
  ASSERT_FALSE(::testing::Test::HasFailure());
  EXPECT_EQ(options.group.streams(), streams);
  for (std::size_t i = 0; i < pairs.clients.size(); ++i)
    pairs.clients[i].write_all(pattern(500, i)).value();
  std::vector<std::byte> got(500);
  for (std::size_t i = 0; i < pairs.servers.size(); ++i) {
    pairs.servers[i].read_exactly(got).value();
    ASSERT_TRUE(same_bytes(got, pattern(500, i))) << i;
  }
}

}  // namespace rdmaxx::device_tests
