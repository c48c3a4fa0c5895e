// Failures of a stream are reported in time, and cause no further harm.

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <softverbs/faults.hpp>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "child_process.hpp"
#include "completion_waiter.hpp"
#include "log_capture.hpp"
#include "stream_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> made(bytes);
  fill_pattern(made, seed);
  return made;
}

class stopwatch {
 public:
  [[nodiscard]] std::chrono::steady_clock::duration elapsed() const {
    return std::chrono::steady_clock::now() - begin_;
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST(stream_failures, flush_tells_that_the_rest_could_not_be_posted) {
  RDMAXX_NEEDS(capability::faults);
  stream_pair pair({.gather = 10s, .write_timeout = patience});
  // The first write stays in flight, so that the second one is held back until it is flushed.
  const auto plan = faults::inject({faults::lose().of(faults::packet::ack),
                                    faults::fail_with(EIO).call("ibv_post_send").nth(2)})
                        .value();
  pair.client.write_all(pattern(10, 1)).value();
  pair.client.write_all(pattern(10, 2)).value();
  ASSERT_EQ(plan.hits(1), 0U);

  const auto flushed = pair.client.flush();

  ASSERT_EQ(plan.hits(1), 1U);
  ASSERT_FALSE(flushed.has_value());
  EXPECT_EQ(flushed.error(), std::errc::io_error) << flushed.error();
  EXPECT_FALSE(pair.client.write(pattern(10, 3)).has_value());
}

TEST(stream_failures, a_paced_writer_does_not_wait_for_credits_that_have_come) {
  // Four frames of data may be on their way; the next are held back, for ten seconds if nobody
  // looks for credits.
  const stream_options options{.window = {.buffers = 6, .buffer_bytes = 1024},
                               .send_buffers = 16,
                               .send_buffer_bytes = 1024,
                               .gather = 10s};
  stream_pair pair(options);
  const auto sent = pattern(6 * (1024 - stream_protocol::frame_header_bytes), 1);
  pair.client.write_all(sent).value();
  ASSERT_LT(pair.client.statistics().frames_sent, 6U);
  const stopwatch time;
  std::vector<std::byte> got(4 * (1024 - stream_protocol::frame_header_bytes));
  pair.server.read_exactly(got).value();

  std::array<std::byte, 1> one{};
  while (pair.client.statistics().frames_sent < 6 && time.elapsed() < 5s) {
    pair.client.try_write(one).value();
    std::this_thread::sleep_for(10ms);  // paced: the buffers never fill up
  }

  EXPECT_GE(pair.client.statistics().frames_sent, 6U);
}

TEST(stream_failures, memory_of_another_domain_is_refused_and_the_stream_goes_on) {
  stream_pair pair;
  const auto foreign = pair.client.native()
                           .id.context()
                           .value()
                           .alloc_pd()
                           .value()
                           .allocate_local({.bytes = 1000})
                           .value();
  const auto refused = pair.client.write_all(foreign, foreign.bytes());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().category(), error_category::misuse) << refused.error();
  const auto sent = pattern(1000, 1);
  pair.client.write_all(sent).value();
  std::vector<std::byte> got(sent.size());
  pair.server.read_exactly(got).value();
  EXPECT_TRUE(same_bytes(got, sent));
}

TEST(stream_failures, a_write_without_a_copy_returns_although_the_device_completes_nothing) {
  RDMAXX_NEEDS(capability::faults);
  stream_pair pair({.write_timeout = 100ms});
  const auto region = pair.client.native().qp.pd().allocate_local({.bytes = 400'000}).value();
  // As a device that has been removed: nothing completes, and no call succeeds any more.
  const auto plan = faults::inject({faults::freeze().of(faults::operation::send).nth(1),
                                    faults::fail_with(EIO).call("rdma_disconnect"),
                                    faults::fail_with(EIO).call("ibv_modify_qp")})
                        .value();
  const auto written = pair.client.write_all(region, region.bytes());
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error(), std::errc::timed_out) << written.error();
  EXPECT_FALSE(pair.client.write_all(region, region.bytes()).has_value()) << "nor does the next";
}

// --- keep-alive --------------------------------------------------------------------------------

void expect_noticed(const result<std::size_t>& read) {
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error(), std::errc::host_unreachable) << read.error();
  EXPECT_EQ(read.error().category(), error_category::peer);
}

TEST(stream_failures, keep_alive_notices_a_frozen_device_in_its_time) {
  RDMAXX_NEEDS(capability::faults);
  stream_pair pair({.keep_alive = 200ms, .keep_alive_timeout = 500ms});
  const auto plan = faults::inject({faults::freeze().at(0s)}).value();
  const stopwatch time;
  std::array<std::byte, 1> one{};
  expect_noticed(pair.client.read(one));
  EXPECT_GE(time.elapsed(), 500ms);
  EXPECT_LT(time.elapsed(), 5s) << "the transport gives up after 17 s";
}

TEST(stream_failures, keep_alive_notices_it_while_something_is_under_way) {
  RDMAXX_NEEDS(capability::faults);
  stream_pair pair({.keep_alive = 200ms, .keep_alive_timeout = 500ms});
  const auto plan = faults::inject({faults::freeze().of(faults::operation::send).nth(1)}).value();
  const stopwatch time;
  pair.client.write_all(pattern(1000, 1)).value();
  const auto flushed = pair.client.flush();
  ASSERT_FALSE(flushed.has_value());
  EXPECT_EQ(flushed.error(), std::errc::host_unreachable) << flushed.error();
  EXPECT_LT(time.elapsed(), 5s);
}

TEST(stream_failures, keep_alive_notices_a_stopped_process_in_its_time) {
  RDMAXX_NEEDS(capability::faults);  // a NIC would answer for it
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  const auto program = self.parent_path().parent_path() / "examples" / "04_echo_server";
  child_process server({program.string(), describe(own_address())});
  const auto address = server.line().substr(std::string("listening on ").size());
  auto client =
      stream::connect(address, {.keep_alive = 200ms, .keep_alive_timeout = 500ms}).value();
  server.send_signal(SIGSTOP);
  const stopwatch time;
  std::array<std::byte, 1> one{};
  expect_noticed(client.read(one));
  EXPECT_LT(time.elapsed(), 5s);
}

// --- without waiting for real ------------------------------------------------------------------

/// The time of the library and that of the devices.
class stopped_time {
 public:
  void advance(std::chrono::nanoseconds by) {
    devices_.advance(by);
    library_.advance(by);
  }
  /// Until the call is over; a call that takes longer than a day is none.
  template <class T>
  T pass(std::future<T> call) {
    for (int step = 0; call.wait_for(1ms) != std::future_status::ready; ++step) {
      if (step < 24 * 60 * 60) advance(1s);
    }
    return call.get();
  }

 private:
  faults::virtual_time devices_;
  manual_clock library_;
};

TEST(stream_failures, a_frozen_peer_is_noticed_without_waiting_for_real) {
  RDMAXX_NEEDS(capability::faults);
  const stopwatch time;
  stream_pair pair({.keep_alive = 1min, .keep_alive_timeout = 30s});
  const auto plan = faults::inject({faults::freeze().at(0s)}).value();
  stopped_time stopped;
  expect_noticed(stopped.pass(std::async(std::launch::async, [&] {
    std::array<std::byte, 1> one{};
    return pair.client.read(one);
  })));
  EXPECT_LT(time.elapsed(), 20s);
}

TEST(stream_failures, a_timeout_of_hours_passes_without_waiting_for_real) {
  stream_pair pair({.read_timeout = 12h, .write_timeout = 1h});
  manual_clock clock;
  const stopwatch time;
  auto reading = std::async(std::launch::async, [&] {
    std::array<std::byte, 1> one{};
    return pair.client.read(one);
  });
  EXPECT_EQ(reading.wait_for(50ms), std::future_status::timeout);
  while (reading.wait_for(1ms) != std::future_status::ready) clock.advance(1h);
  EXPECT_EQ(reading.get().error(), std::errc::timed_out);
  EXPECT_LT(time.elapsed(), 20s);
}

// --- what the end of a stream loses ------------------------------------------------------------

TEST(stream_failures, a_stream_that_ends_with_unread_bytes_says_how_many) {
  const log_capture log;
  {
    stream_pair pair;
    pair.client.write_all(pattern(1000, 1)).value();
    pair.client.flush().value();
    std::array<std::byte, 10> some{};
    pair.server.read_exactly(some).value();
    const stream gone = std::move(pair.server);
  }
  EXPECT_THAT(log.lines(), Contains(HasSubstr("990 bytes that had arrived were not read")));
}

TEST(stream_failures, a_read_half_that_ends_with_unread_bytes_says_how_many) {
  const log_capture log;
  stream_pair pair;
  auto [reads, writes] = std::move(pair.server).into_split();
  pair.client.write_all(pattern(1000, 1)).value();
  pair.client.flush().value();
  std::array<std::byte, 1> one{};
  reads.read_exactly(one).value();
  {
    const auto gone = std::move(reads);
  }
  EXPECT_THAT(log.lines(), Contains(HasSubstr("999 bytes that had arrived were not read")));
}

TEST(stream_failures, a_stream_that_ends_before_all_has_arrived_says_how_much) {
  const log_capture log;
  stream_pair pair({.write_timeout = 100ms, .linger = 50ms});
  const auto chunk = pattern(100'000, 1);
  std::size_t taken = 0;
  for (auto some = pair.client.write(chunk); some; some = pair.client.write(chunk)) taken += *some;
  {
    const stream gone = std::move(pair.client);
  }
  ASSERT_THAT(log.lines(), Contains(HasSubstr("bytes that were written may not have arrived")));
  EXPECT_LT(std::stoul(log.lines().front().substr(log.lines().front().rfind(": ") + 2)), taken);
}

TEST(stream_failures, what_the_program_knows_or_wants_is_not_logged) {
  const log_capture log;
  {
    stream_pair pair;
    pair.client.write_all(pattern(1000, 1)).value();
    pair.client.flush().value();
    std::vector<std::byte> got(1000);
    pair.server.read_exactly(got).value();
  }
  {
    stream_pair pair;
    pair.client.write_all(pattern(1000, 1)).value();
    pair.client.flush().value();
    pair.server.shutdown(direction::read);
  }
  {
    stream_pair pair;
    pair.server.abort();
    std::array<std::byte, 1> one{};
    EXPECT_FALSE(pair.client.read(one).has_value());
    EXPECT_FALSE(pair.client.write_all(pattern(1000, 1)).has_value());
  }
  EXPECT_THAT(log.lines(), IsEmpty());
}

}  // namespace

}  // namespace rdmaxx::device_tests
