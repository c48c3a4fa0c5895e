// Streams under load: much data both ways, many at once, peers that die, networks that lose.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <future>
#include <latch>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <softverbs/faults.hpp>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "child_process.hpp"
#include "completion_waiter.hpp"
#include "stream_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

bool is_soft() { return device_under_test::get().has(capability::faults); }

/// A GiB where that takes seconds.
std::size_t much() {
  if (!is_soft()) return std::size_t{24} << 20;
  return is_sanitized ? std::size_t{48} << 20 : std::size_t{1} << 30;
}

/// The stream's bytes follow from their position, eight at a time.
class position_bytes {
 public:
  explicit position_bytes(std::uint64_t seed) : seed_(seed) {}

  void fill(std::span<std::byte> out) {
    for (auto& byte : out) byte = next();
  }
  /// The number of the first byte that is wrong, or nothing.
  [[nodiscard]] std::optional<std::uint64_t> check(std::span<const std::byte> in) {
    std::optional<std::uint64_t> wrong;
    for (const auto byte : in) {
      const auto position = position_;
      if (byte != next() && !wrong) wrong = position;
    }
    return wrong;
  }

 private:
  [[nodiscard]] std::byte next() {
    const auto place = position_++ % 8;
    if (place == 0) {
      word_ = (position_ + seed_) * 0x9e3779b97f4a7c15ULL;
      word_ ^= word_ >> 29U;
    }
    return static_cast<std::byte>(word_ >> 8 * place);
  }

  std::uint64_t seed_;
  std::uint64_t position_ = 0;
  std::uint64_t word_ = 0;
};

/// From 1 byte to 4 MiB, small ones as often as large ones.
class random_sizes {
 public:
  explicit random_sizes(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] std::size_t next(std::size_t limit) {
    const auto bits = std::uniform_int_distribution<unsigned>(0, 21)(random_);
    const auto size =
        std::uniform_int_distribution<std::size_t>(1, std::size_t{2} << bits)(random_);
    return std::min(size, limit);
  }
  /// Sometimes a pause, so that queues run empty.
  void pause() {
    if (random_() % 64 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 500));
  }

 private:
  std::mt19937_64 random_;
};

void send(write_half half, std::uint64_t seed, std::size_t total) {
  position_bytes bytes(seed);
  random_sizes sizes(seed);
  std::vector<std::byte> buffer(std::size_t{4} << 20);
  for (std::size_t sent = 0; sent < total;) {
    const auto part = std::span(buffer).first(sizes.next(std::min(buffer.size(), total - sent)));
    bytes.fill(part);
    half.write_all(part).value();
    sent += part.size();
    sizes.pause();
  }
}

void receive(read_half& half, std::uint64_t seed, std::size_t total) {
  position_bytes bytes(seed);
  random_sizes sizes(seed + 1);
  std::vector<std::byte> buffer(std::size_t{4} << 20);
  std::size_t got = 0;
  for (;;) {
    const auto count = half.read(std::span(buffer).first(sizes.next(buffer.size()))).value();
    if (count == 0) break;
    const auto wrong = bytes.check(std::span(buffer).first(count));
    ASSERT_FALSE(wrong.has_value()) << "byte " << *wrong;
    got += count;
    sizes.pause();
  }
  EXPECT_EQ(got, total);
}

/// Both ways at once, in four threads.
void expect_traffic(stream_pair pair, std::size_t total) {
  auto [client_reads, client_writes] = std::move(pair.client).into_split();
  auto [server_reads, server_writes] = std::move(pair.server).into_split();
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { send(std::move(client_writes), 1, total); });
  threads.emplace_back([&] { send(std::move(server_writes), 2, total); });
  threads.emplace_back([&] { receive(client_reads, 2, total); });
  threads.emplace_back([&] { receive(server_reads, 1, total); });
}

TEST(stream_stress, much_data_both_ways_in_random_pieces) { expect_traffic(stream_pair(), much()); }

TEST(stream_stress, the_smallest_buffers_are_enough) {
  const stream_options small{
      .window = {.buffers = 8, .buffer_bytes = 64}, .send_buffers = 2, .send_buffer_bytes = 64};
  expect_traffic(stream_pair(small), is_soft() ? 1'000'000 : 100'000);
}

TEST(stream_stress, windows_of_different_size_work_together) {
  const stream_options large{.window = {.buffers = 16, .buffer_bytes = 100'000},
                             .send_buffers = 3,
                             .send_buffer_bytes = 50'000};
  const stream_options small{
      .window = {.buffers = 64, .buffer_bytes = 512}, .send_buffers = 20, .send_buffer_bytes = 333};
  expect_traffic(stream_pair(large, small), is_soft() ? 20'000'000 : 2'000'000);
}

/// siw maps at most 144 queues into a process: four for each end of a stream.
std::size_t many() {
  if (device_under_test::get().is_iwarp()) return 15;
  return is_soft() ? 200 : 60;
}

/// Each client sends its number, and the server of its stream returns it.
void expect_echoes(std::vector<stream>& clients, std::vector<stream>& servers) {
  std::vector<std::byte> message(1000);
  std::vector<std::byte> got(message.size());
  for (std::size_t i = 0; i < clients.size(); ++i) {
    fill_pattern(message, i);
    clients[i].write_all(message).value();
  }
  for (auto& server : servers) {
    server.read_exactly(got).value();
    server.write_all(got).value();
  }
  for (std::size_t i = 0; i < clients.size(); ++i) {
    fill_pattern(message, i);
    clients[i].read_exactly(got).value();
    ASSERT_TRUE(same_bytes(got, message)) << i;
  }
  for (auto& client : clients) client.shutdown(direction::write);
  for (auto& server : servers) server.close(patience).value();
  for (auto& client : clients) client.close(patience).value();
}

const stream_options small_windows{.window = {.buffers = 8, .buffer_bytes = 4096},
                                   .send_buffers = 2,
                                   .send_buffer_bytes = 4096,
                                   .connect_timeout = patience};

TEST(stream_stress, many_streams_at_once) {
  const auto count = many();
  const auto waiting = stream_listener::listen(own_address(), small_windows).value();
  std::vector<stream> servers;
  std::vector<stream> clients;
  for (std::size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    auto asking = std::async(std::launch::async, [&] {
      return stream::connect(waiting.local_address(), small_windows);
    });
    auto accepted = waiting.accept(patience);
    auto connected = asking.get();
    ASSERT_TRUE(connected.has_value()) << connected.error();
    ASSERT_TRUE(accepted.has_value()) << accepted.error();
    servers.push_back(*std::move(accepted));
    clients.push_back(*std::move(connected));
  }
  expect_echoes(clients, servers);
}

TEST(stream_stress, many_streams_that_connect_at_the_same_moment) {
  const auto count = many();
  const auto waiting = stream_listener::listen(own_address(), small_windows).value();
  std::latch start(static_cast<std::ptrdiff_t>(count));
  std::vector<std::future<result<stream>>> asking;
  for (std::size_t i = 0; i < count; ++i) {
    asking.push_back(std::async(std::launch::async, [&] {
      start.arrive_and_wait();
      return stream::connect(waiting.local_address(), small_windows);
    }));
  }
  std::vector<stream> servers;
  for (std::size_t i = 0; i < count; ++i) {
    auto accepted = waiting.accept(patience);
    ASSERT_TRUE(accepted.has_value()) << i << ": " << accepted.error();
    servers.push_back(*std::move(accepted));
  }
  std::vector<stream> clients;
  for (auto& each : asking) {
    auto connected = each.get();
    ASSERT_TRUE(connected.has_value()) << connected.error();
    clients.push_back(*std::move(connected));
  }
  expect_echoes(clients, servers);
}

TEST(stream_stress, a_killed_peer_does_not_look_like_the_end_of_the_stream) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  const auto program = self.parent_path().parent_path() / "examples" / "04_echo_server";
  std::mt19937 random(7);
  for (int round = 0; round < 5; ++round) {
    std::optional<child_process> server(std::in_place,
                                        std::vector{program.string(), describe(own_address())});
    const auto first = server->line();
    const std::string announcement = "listening on ";
    ASSERT_TRUE(first.starts_with(announcement)) << first;
    auto client = stream::connect(first.substr(announcement.size()),
                                  {.read_timeout = patience, .write_timeout = patience})
                      .value();
    // Whatever the streams do at that moment: nothing relies on how long it is.
    const std::chrono::microseconds until(random() % 20'000);
    const std::jthread killer([&] {
      std::this_thread::sleep_for(until);
      server.reset();  // kills it
    });
    std::vector<std::byte> message(200'000);
    std::optional<error> failure;
    for (unsigned i = 0; !failure && i < 100'000; ++i) {
      if (const auto wrote = client.write_all(message); !wrote) {
        failure = wrote.error();
        break;
      }
      const auto answered = client.read_exactly(message);
      if (!answered) failure = answered.error();
    }
    ASSERT_TRUE(failure.has_value());
    EXPECT_NE(failure->code(), std::make_error_code(std::errc::no_message_available)) << *failure;
    EXPECT_NE(*failure, std::errc::timed_out) << *failure;
  }
}

TEST(stream_stress, a_bad_network_costs_time_but_no_bytes) {
  RDMAXX_NEEDS(capability::faults);
  // Counted, not by chance: even the shortest run meets each of them.
  const auto plan = faults::inject({faults::lose().every(53), faults::duplicate().every(59),
                                    faults::reorder().every(61), faults::corrupt().every(67),
                                    faults::delay(300us).every(71)})
                        .value();
  expect_traffic(stream_pair(), is_sanitized ? 2'000'000 : 20'000'000);
  for (std::size_t rule = 0; rule < 5; ++rule) EXPECT_GE(plan.hits(rule), 3U) << "rule " << rule;
}

TEST(stream_stress, a_half_learns_of_its_sends_while_the_other_half_sleeps) {
  RDMAXX_NEEDS(capability::faults);
  stream_pair pair(
      {.spin = 0us, .gather = 0us, .read_timeout = patience, .write_timeout = patience});
  auto [reads, writes] = std::move(pair.client).into_split();
  auto waiting = std::async(std::launch::async, [&half = reads] {
    std::array<std::byte, 1> one{};
    return half.read(one);
  });
  {
    // So that nothing has been acknowledged when the writer begins to wait.
    const auto plan = faults::inject({faults::delay(2ms)}).value();
    for (int round = 0; round < 10; ++round) {
      writes.write_all(pattern(1000, 1)).value();
      writes.flush().value();
    }
  }
  pair.server.write_all(pattern(1, 1)).value();
  EXPECT_EQ(waiting.get().value(), 1U);
}

TEST(stream_stress, a_broken_connection_is_reported_with_its_cause) {
  RDMAXX_NEEDS(capability::faults);
  stream_pair pair;
  const auto plan = faults::inject({faults::complete_with(wc_status::retry_exceeded)
                                        .of(faults::operation::send)
                                        .on(pair.client.native().qp.number())})
                        .value();
  std::array<std::byte, 100> message{};
  pair.client.write_all(message).value();
  const auto failed = pair.client.read(message);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), make_error_code(wc_status::retry_exceeded)) << failed.error();
}

TEST(stream_stress, keep_alive_finds_a_peer_that_does_not_answer) {
  RDMAXX_NEEDS(capability::faults);
  // 4 ms for an answer, eight times.
  stream_pair pair({.keep_alive = 20ms, .id = {.ack_timeout = ack_timeout::from_exponent(10)}});
  const auto plan = faults::inject({faults::lose().on(pair.client.native().qp.number())}).value();
  std::array<std::byte, 1> one{};
  const auto failed = pair.client.read(one);  // the peer does not write, and there is no timeout
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), make_error_code(wc_status::retry_exceeded)) << failed.error();
}

TEST(stream_stress, an_idle_stream_costs_nothing) {
  stream_pair pair;
  const auto cpu_time = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  pair.client.set_read_timeout(500ms);
  std::array<std::byte, 1> one{};
  const auto before = cpu_time();
  EXPECT_EQ(pair.client.read(one).error(), std::errc::timed_out);
  EXPECT_LT(cpu_time() - before, 50ms);
}

}  // namespace

}  // namespace rdmaxx::device_tests
