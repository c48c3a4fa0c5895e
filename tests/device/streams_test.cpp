// Streams: bytes arrive as they were written, and every kind of end is distinguishable.

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "stream_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> made(bytes);
  fill_pattern(made, seed);
  return made;
}

/// `count` bytes go from one end to the other.
void expect_bytes(stream& from, stream& to, std::size_t count, std::uint64_t seed) {
  const auto sent = pattern(count, seed);
  std::vector<std::byte> got(count);
  auto writing = std::async(std::launch::async, [&] { return from.write_all(sent); });
  to.read_exactly(got).value();
  writing.get().value();
  EXPECT_TRUE(same_bytes(got, sent));
}

void expect_closed_in_order(stream& one, stream& other) {
  auto closing = std::async(std::launch::async, [&] { return other.close(patience); });
  one.close(patience).value();
  closing.get().value();
}

TEST(streams, echo) {
  stream_pair pair;
  for (int round = 0; round < 5; ++round) {
    const auto sent = pattern(100, static_cast<std::uint64_t>(round));
    pair.client.write_all(sent).value();
    std::array<std::byte, 100> got{};
    pair.server.read_exactly(got).value();
    pair.server.write_all(got).value();
    std::array<std::byte, 100> back{};
    pair.client.read_exactly(back).value();
    EXPECT_TRUE(same_bytes(back, sent));
  }
  expect_closed_in_order(pair.client, pair.server);
}

TEST(streams, the_accepting_side_may_write_first) {
  stream_pair pair;
  expect_bytes(pair.server, pair.client, 1000, 1);
}

TEST(streams, carry_messages_of_any_size) {
  stream_pair pair;
  for (const std::size_t size : {1UL, 15UL, 16UL, 17UL, 219UL, 32751UL, 32752UL, 32753UL, 32768UL,
                                 100'000UL, 1'000'000UL, 4'194'304UL}) {
    SCOPED_TRACE(size);
    expect_bytes(pair.client, pair.server, size, size);
    expect_bytes(pair.server, pair.client, size, size + 1);
  }
  expect_closed_in_order(pair.server, pair.client);
}

TEST(streams, scatter_and_gather) {
  stream_pair pair;
  const auto all = pattern(90, 9);
  const auto piece = [&](std::size_t begin, std::size_t count) {
    return std::span<const std::byte>(all).subspan(begin, count);
  };
  const std::array from{piece(0, 1), piece(1, 0), piece(1, 50), piece(51, 39)};
  pair.client.write_all(from).value();
  std::vector<std::byte> got(90);
  const std::array into{std::span(got).first(30), std::span(got).subspan(30, 0),
                        std::span(got).subspan(30)};
  pair.server.read_exactly(into).value();
  EXPECT_TRUE(same_bytes(got, all));
}

TEST(streams, send_registered_memory_without_a_copy) {
  stream_pair pair;
  const auto region = pair.client.native().qp.pd().allocate_local({.bytes = 300'000}).value();
  fill_pattern(region.bytes(), 4);
  std::vector<std::byte> got(300'000);
  auto reading = std::async(std::launch::async, [&] { return pair.server.read_exactly(got); });
  pair.client.write_all(region, region.bytes()).value();
  reading.get().value();
  EXPECT_TRUE(same_bytes(got, region.bytes()));
  EXPECT_GT(pair.client.statistics().in_place_frames_sent, 0U);
  const auto outside = pattern(10, 1);
  EXPECT_EQ(pair.client.write_all(region, outside).error().category(), error_category::misuse);
}

TEST(streams, show_received_bytes_in_place) {
  stream_pair pair;
  const auto sent = pattern(10'000, 2);
  pair.client.write_all(sent).value();
  std::vector<std::byte> got;
  while (got.size() < sent.size()) {
    const auto here = pair.server.peek().value();
    ASSERT_FALSE(here.empty());
    const auto part = std::max<std::size_t>(here.size() / 2, 1);
    got.insert(got.end(), here.begin(), here.begin() + static_cast<std::ptrdiff_t>(part));
    pair.server.consume(part);
  }
  EXPECT_TRUE(same_bytes(got, sent));
}

TEST(streams, small_writes_gather_and_still_arrive_without_another_call) {
  stream_pair pair({.gather = 1ms});
  const auto sent = pattern(20'000, 3);
  for (std::size_t i = 0; i < sent.size(); i += 10)
    pair.client.write_all(std::span(sent).subspan(i, 10)).value();
  // The client makes no more calls.
  std::vector<std::byte> got(sent.size());
  pair.server.read_exactly(got).value();
  EXPECT_TRUE(same_bytes(got, sent));
  EXPECT_LT(pair.client.statistics().frames_sent, 2000U);
}

TEST(streams, flush_returns_when_everything_has_arrived) {
  stream_pair pair;
  pair.client.write_all(pattern(5000, 1)).value();
  pair.client.flush().value();
  std::array<std::byte, 5000> got{};
  std::size_t count = 0;
  while (count < got.size()) {
    const auto part = pair.server.try_read(std::span(got).subspan(count)).value();
    ASSERT_TRUE(part.has_value()) << "it is here, but cannot be read at once";
    count += *part;
  }
}

TEST(streams, a_read_that_takes_too_long_can_be_tried_again) {
  stream_pair pair;
  pair.server.set_read_timeout(50ms);
  std::array<std::byte, 4> got{};
  const auto late = pair.server.read(got);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error(), std::errc::timed_out);
  EXPECT_FALSE(pair.server.try_read(got).value().has_value());
  pair.server.set_read_timeout(forever);
  expect_bytes(pair.client, pair.server, 4, 1);
}

TEST(streams, a_writer_whose_peer_does_not_read_stops_within_its_memory) {
  stream_pair pair({.write_timeout = 100ms});
  const auto chunk = pattern(100'000, 1);
  std::size_t taken = 0;
  std::optional<error> failure;
  while (!failure && taken < 100'000'000) {
    const auto wrote = pair.client.write(chunk);
    if (wrote) {
      taken += *wrote;
    } else {
      failure = wrote.error();
    }
  }
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(*failure, std::errc::timed_out);
  EXPECT_LT(taken, 2'000'000U) << "both sides' buffers together";
  EXPECT_FALSE(pair.client.try_write(chunk).value().has_value());
  // Nothing is lost.
  std::vector<std::byte> got(taken);
  pair.server.read_exactly(got).value();
  EXPECT_TRUE(same_bytes(std::span(got).first(chunk.size()), chunk));
}

TEST(streams, two_sides_that_only_write_continue_when_they_read) {
  stream_pair pair({.write_timeout = 50ms});
  const auto chunk = pattern(10'000, 1);
  std::array<std::size_t, 2> taken{};
  for (const int side : {0, 1}) {
    auto& writer = side == 0 ? pair.client : pair.server;
    for (auto wrote = writer.write(chunk); wrote; wrote = writer.write(chunk))
      taken[static_cast<std::size_t>(side)] += *wrote;
  }
  std::vector<std::byte> got(taken[0]);
  pair.server.read_exactly(got).value();
  got.resize(taken[1]);
  pair.client.read_exactly(got).value();
  expect_bytes(pair.client, pair.server, 100'000, 7);
  expect_bytes(pair.server, pair.client, 100'000, 8);
}

TEST(streams, half_closed_the_other_direction_goes_on) {
  for (const bool client_first : {true, false}) {
    SCOPED_TRACE(client_first);
    stream_pair pair;
    auto& first = client_first ? pair.client : pair.server;
    auto& second = client_first ? pair.server : pair.client;
    first.write_all(pattern(10, 1)).value();
    first.shutdown(direction::write);
    std::array<std::byte, 10> got{};
    second.read_exactly(got).value();
    EXPECT_EQ(second.read(got).value(), 0U) << "the end";
    EXPECT_EQ(second.read(got).value(), 0U) << "it stays the end";
    EXPECT_EQ(first.write(got).error(), std::errc::broken_pipe);
    expect_bytes(second, first, 100'000, 2);
    second.shutdown(direction::write);
    EXPECT_EQ(first.read(got).value(), 0U);
    expect_closed_in_order(first, second);
  }
}

TEST(streams, a_stream_that_ends_too_early_is_no_whole_read) {
  stream_pair pair;
  pair.client.write_all(pattern(3, 1)).value();
  pair.client.shutdown(direction::write);
  std::array<std::byte, 10> got{};
  const auto failed = pair.server.read_exactly(got);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), std::make_error_code(std::errc::no_message_available));
  EXPECT_THAT(failed.error().message(), HasSubstr("3 of 10"));
}

TEST(streams, a_reader_that_stops_ends_the_writer) {
  stream_pair pair;
  pair.server.shutdown(direction::read);
  std::array<std::byte, 1> one{};
  EXPECT_EQ(pair.server.read(one).value(), 0U);
  const auto chunk = pattern(10'000, 1);
  std::optional<error> failure;
  for (int i = 0; i < 10'000 && !failure; ++i) {
    if (const auto wrote = pair.client.write_all(chunk); !wrote) failure = wrote.error();
  }
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(*failure, std::errc::broken_pipe);
  EXPECT_EQ(failure->category(), error_category::peer);
  // The other direction is as it was.
  std::array<std::byte, 100> got{};
  pair.server.write_all(pattern(100, 1)).value();
  pair.client.read_exactly(got).value();
}

/// What happens to a write that waits for the reader when the reader ends.
void expect_of_a_writer(void (*end)(stream_pair&), void (*expect)(const result<void>&)) {
  for (const bool without_copy : {false, true}) {
    SCOPED_TRACE(without_copy ? "without a copy" : "copied");
    stream_pair pair({.write_timeout = patience});
    const auto region = pair.client.native().qp.pd().allocate_local({.bytes = 4'000'000}).value();
    auto writing = std::async(std::launch::async, [&] {
      return without_copy ? pair.client.write_all(region, region.bytes())
                          : pair.client.write_all(region.bytes());
    });
    std::vector<std::byte> beginning(100'000);
    pair.server.read_exactly(beginning).value();
    end(pair);
    expect(writing.get());
  }
}

TEST(streams, a_reader_that_stops_in_the_middle_ends_the_writer) {
  expect_of_a_writer(
      [](stream_pair& pair) { pair.server.shutdown(direction::read); },
      [](const result<void>& written) { EXPECT_EQ(written.error(), std::errc::broken_pipe); });
}

TEST(streams, a_reader_that_aborts_in_the_middle_ends_the_writer) {
  expect_of_a_writer(
      [](stream_pair& pair) { pair.server.abort(); },
      [](const result<void>& written) { EXPECT_EQ(written.error(), std::errc::connection_reset); });
}

TEST(streams, a_reader_that_is_destroyed_in_the_middle_ends_the_writer) {
  expect_of_a_writer([](stream_pair& pair) { const stream gone = std::move(pair.server); },
                     [](const result<void>& written) {
                       ASSERT_FALSE(written.has_value());
                       EXPECT_NE(written.error(), std::errc::timed_out);
                     });
}

TEST(streams, a_reader_that_closes_in_the_middle_takes_the_rest) {
  expect_of_a_writer(
      [](stream_pair& pair) {
        // Gives up, because the peer does not end its side; but takes everything until then.
        const auto enough = device_under_test::get().has(capability::faults) ? 1s : 5s;
        EXPECT_EQ(pair.server.close(enough).error(), std::errc::timed_out);
      },
      [](const result<void>& written) { EXPECT_TRUE(written.has_value()) << written.error(); });
}

TEST(streams, memory_is_free_when_a_write_without_a_copy_has_timed_out) {
  stream_pair pair({.write_timeout = 100ms});
  const auto region = pair.client.native().qp.pd().allocate_local({.bytes = 4'000'000}).value();
  EXPECT_EQ(pair.client.write_all(region, region.bytes()).error(), std::errc::timed_out);
  std::array<std::byte, 1> one{};
  EXPECT_EQ(pair.client.read(one).error(), std::errc::timed_out) << "it stays the cause";
  std::vector<std::byte> got(4'000'000);
  EXPECT_FALSE(pair.server.read_exactly(got).has_value());
}

TEST(streams, an_abort_differs_from_an_end) {
  stream_pair pair;
  expect_bytes(pair.client, pair.server, 100, 1);
  pair.client.abort();
  std::array<std::byte, 1> one{};
  const auto failed = pair.server.read(one);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::connection_reset);
  EXPECT_EQ(pair.client.read(one).error(), std::errc::connection_aborted);
  EXPECT_EQ(pair.client.write(one).error(), std::errc::connection_aborted);
  EXPECT_FALSE(pair.server.close(1s).has_value());
}

TEST(streams, what_was_written_before_the_end_of_a_stream_arrives) {
  std::optional<stream_pair> pair(std::in_place);
  const auto sent = pattern(200'000, 6);
  pair->client.write_all(sent).value();
  auto server = std::move(pair->server);
  std::vector<std::byte> got(sent.size());
  auto reading = std::async(std::launch::async, [&] { return server.read_exactly(got); });
  pair.reset();
  reading.get().value();
  EXPECT_TRUE(same_bytes(got, sent));
  std::array<std::byte, 1> one{};
  EXPECT_EQ(server.read(one).value(), 0U);
}

TEST(streams, closing_waits_for_the_peer_and_drops_what_it_still_sends) {
  stream_pair pair;
  pair.server.write_all(pattern(50'000, 1)).value();
  auto closing = std::async(std::launch::async, [&] { return pair.client.close(patience); });
  std::array<std::byte, 1> one{};
  EXPECT_EQ(pair.server.read(one).value(), 0U);
  pair.server.write_all(pattern(50'000, 1)).value();
  pair.server.close(patience).value();
  closing.get().value();
}

TEST(streams, closing_gives_up_in_time) {
  stream_pair pair;
  const auto failed = pair.client.close(50ms);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::timed_out);
  std::array<std::byte, 1> one{};
  // The end of what the client wrote came before its abort.
  const auto told = pair.server.read(one);
  EXPECT_TRUE(!told.has_value() || *told == 0);
  EXPECT_FALSE(pair.server.write_all(pattern(1'000'000, 1)).has_value());
}

TEST(streams, halves_work_in_two_threads) {
  stream_pair pair;
  auto [client_reads, client_writes] = std::move(pair.client).into_split();
  auto [server_reads, server_writes] = std::move(pair.server).into_split();
  const auto sent = pattern(1'000'000, 5);
  const auto send = [&](write_half half) { half.write_all(sent).value(); };  // its end is the end
  const auto receive = [&](read_half& half) {
    std::vector<std::byte> got(sent.size());
    half.read_exactly(got).value();
    EXPECT_TRUE(same_bytes(got, sent));
    std::array<std::byte, 1> one{};
    EXPECT_EQ(half.read(one).value(), 0U);
  };
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { send(std::move(client_writes)); });
  threads.emplace_back([&] { send(std::move(server_writes)); });
  threads.emplace_back([&] { receive(client_reads); });
  threads.emplace_back([&] { receive(server_reads); });
}

TEST(streams, an_abort_wakes_a_half_that_waits) {
  stream_pair pair;
  auto [reads, writes] = std::move(pair.client).into_split();
  auto waiting = std::async(std::launch::async, [&half = reads] {
    std::array<std::byte, 1> one{};
    return half.read(one);
  });
  writes.abort();
  EXPECT_FALSE(waiting.get().has_value());
}

TEST(streams, a_descriptor_reports_when_to_try_again) {
  stream_pair pair;
  std::array<std::byte, 100> got{};
  for (int round = 0; round < 3; ++round) {
    while (pair.server.try_read(got).value()) continue;
    pair.client.write_all(pattern(100, 1)).value();
    ASSERT_TRUE(wait_readable(pair.server.fd().value(), patience).value());
    wait_until("bytes", [&] { return pair.server.try_read(got).value().has_value(); });
  }
  EXPECT_FALSE(pair.server.try_read(got).value());
  pair.client.shutdown(direction::write);
  ASSERT_TRUE(wait_readable(pair.server.fd().value(), patience).value());
  wait_until("the end", [&] { return pair.server.try_read(got).value() == 0U; });
}

void fill(stream& into) {
  const auto chunk = pattern(100'000, 1);
  while (into.try_write(chunk).value()) continue;
}

TEST(streams, a_descriptor_reports_when_there_is_room_again) {
  stream_pair pair;
  const int fd = pair.client.fd().value();
  fill(pair.client);
  std::vector<std::byte> got(100'000);
  while (pair.server.try_read(got).value()) continue;
  ASSERT_TRUE(wait_readable(fd, patience).value());
  wait_until("room", [&] { return pair.client.try_write(got).value().has_value(); });
}

TEST(streams, a_descriptor_reports_what_arrived_while_something_else_was_tried) {
  stream_pair pair;
  const int fd = pair.client.fd().value();
  std::array<std::byte, 10> got{};
  EXPECT_FALSE(pair.client.try_read(got).value());
  fill(pair.client);
  pair.server.write_all(pattern(10, 1)).value();
  pair.server.flush().value();
  // Takes the event, finds no room, and the server sends nothing more.
  EXPECT_FALSE(pair.client.try_write(got).value());
  ASSERT_TRUE(wait_readable(fd, patience).value());
  wait_until("bytes", [&] { return pair.client.try_read(got).value().has_value(); });
}

TEST(streams, a_descriptor_reports_arrivals_after_a_blocking_call) {
  stream_pair pair;
  const int fd = pair.client.fd().value();
  std::array<std::byte, 10> got{};
  EXPECT_FALSE(pair.client.try_read(got).value());
  pair.client.write_all(pattern(100, 1)).value();
  pair.client.flush().value();
  pair.server.write_all(pattern(10, 1)).value();
  ASSERT_TRUE(wait_readable(fd, patience).value());
  wait_until("bytes", [&] { return pair.client.try_read(got).value().has_value(); });
}

TEST(streams, a_half_that_is_assigned_to_ends_first) {
  stream_pair one;
  stream_pair other;
  auto [one_reads, one_writes] = std::move(one.client).into_split();
  auto [other_reads, other_writes] = std::move(other.client).into_split();
  one_writes = std::move(other_writes);
  std::array<std::byte, 10> got{};
  EXPECT_EQ(one.server.read(got).value(), 0U);
  one_writes.write_all(pattern(10, 1)).value();
  other.server.read_exactly(got).value();
}

TEST(streams, timeouts_go_with_the_halves_and_count_for_whole_calls) {
  stream_pair pair;
  pair.client.set_read_timeout(100ms);
  auto [reads, writes] = std::move(pair.client).into_split();
  pair.server.write_all(pattern(3, 1)).value();
  std::array<std::byte, 10> got{};
  const auto failed = reads.read_exactly(got);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::timed_out);
  EXPECT_THAT(failed.error().message(), HasSubstr("after 3 of 10 bytes"));
}

TEST(streams, invalid_options_are_refused_at_once) {
  EXPECT_EQ(stream_listener::listen(own_address(), {.send_buffers = 1}).error().category(),
            error_category::misuse);
  EXPECT_EQ(stream::connect(own_address(1), {.send_buffer_bytes = 8}).error().category(),
            error_category::misuse);
  EXPECT_EQ(stream::connect(own_address(1), {.window = {.buffers = 1}}).error().category(),
            error_category::misuse);
  EXPECT_EQ(stream::connect(own_address(1), {.connect_timeout = 0ms}).error().category(),
            error_category::misuse);
  EXPECT_EQ(stream::connect(own_address(1), {.keep_alive = -1ms}).error().category(),
            error_category::misuse);
}

TEST(streams, flush_tells_that_the_peer_has_stopped_reading) {
  stream_pair pair({.write_timeout = 100ms});
  while (pair.client.write(pattern(10'000, 1))) continue;
  pair.server.shutdown(direction::read);
  pair.client.set_write_timeout(patience);
  EXPECT_EQ(pair.client.flush().error(), std::errc::broken_pipe);
}

TEST(streams, keep_alive_does_not_disturb) {
  stream_pair pair({.read_timeout = 300ms, .keep_alive = 20ms});
  std::array<std::byte, 1> one{};
  EXPECT_EQ(pair.client.read(one).error(), std::errc::timed_out);
  expect_bytes(pair.client, pair.server, 1000, 1);
  expect_bytes(pair.server, pair.client, 1000, 2);
}

TEST(streams, as_iostreams_speak_lines) {
  stream_pair pair;
  stream_iostream client(std::move(pair.client));
  stream_iostream server(std::move(pair.server));
  client << "GET " << 42 << '\n' << std::flush;
  std::string word;
  int number = 0;
  server >> word >> number;
  EXPECT_EQ(word, "GET");
  EXPECT_EQ(number, 42);
  server.ignore();
  const std::string body(100'000, 'x');
  auto writing = std::async(std::launch::async, [&] { server << body << std::endl; });
  std::string line;
  EXPECT_TRUE(std::getline(client, line));
  EXPECT_EQ(line, body);
  writing.get();
  client.stream().shutdown(direction::write);
  EXPECT_FALSE(std::getline(server, line));
  EXPECT_TRUE(server.eof());
  EXPECT_FALSE(server.failure().has_value());
}

TEST(streams, a_lost_peer_does_not_look_like_the_end_of_an_iostream) {
  stream_pair pair;
  stream_iostream server(std::move(pair.server));
  pair.client.abort();
  std::string line;
  EXPECT_FALSE(std::getline(server, line));
  EXPECT_TRUE(server.bad());
  ASSERT_TRUE(server.failure().has_value());
  EXPECT_EQ(*server.failure(), std::errc::connection_reset);
}

TEST(streams, what_an_iostream_could_not_send_is_no_end_either) {
  stream_pair pair;
  stream_iostream server(std::move(pair.server));
  server << "a question";
  pair.client.abort();
  std::string line;
  EXPECT_FALSE(std::getline(server, line));
  EXPECT_TRUE(server.bad());
}

TEST(streams, an_iostream_reads_what_a_peer_said_before_it_stopped_reading) {
  stream_pair pair;
  stream_iostream server(std::move(pair.server));
  pair.client.shutdown(direction::read);
  std::string line = "enough\n";
  pair.client.write_all(std::as_bytes(std::span(line))).value();
  pair.client.flush().value();
  server << "a question";
  EXPECT_TRUE(std::getline(server, line));
  EXPECT_EQ(line, "enough");
}

TEST(streams, an_iostream_keeps_what_it_could_not_send_in_time) {
  stream_pair pair({.write_timeout = 50ms});
  stream_iostream client(std::move(pair.client));
  const std::string line(500, 'x');
  std::size_t sent = 0;
  for (; client << line << std::flush; ++sent) {
  }
  ASSERT_TRUE(client.failure().has_value());
  EXPECT_EQ(*client.failure(), std::errc::timed_out);
  // Clearing the state and flushing again loses and duplicates nothing.
  std::vector<std::byte> got((sent + 1) * line.size());
  auto reading = std::async(std::launch::async, [&] { return pair.server.read_exactly(got); });
  do {
    client.clear();
  } while (!(client << std::flush));
  EXPECT_FALSE(client.failure().has_value());
  reading.get().value();
  pair.server.set_read_timeout(50ms);
  std::array<std::byte, 1> one{};
  EXPECT_EQ(pair.server.read(one).error(), std::errc::timed_out);
}

TEST(streams, carry_bytes_with_every_preset) {
  for (const auto& options : {stream_options::low_latency(), stream_options::low_cpu()}) {
    stream_pair pair(options);
    expect_bytes(pair.client, pair.server, 300'000, 1);
    expect_bytes(pair.server, pair.client, 100, 2);
    expect_closed_in_order(pair.client, pair.server);
  }
}

TEST(streams, know_their_addresses) {
  stream_pair pair;
  EXPECT_EQ(pair.client.peer_address(), pair.server.local_address());
  EXPECT_EQ(pair.client.local_address(), pair.server.peer_address());
  EXPECT_THAT(describe(pair.client), HasSubstr(describe(pair.server.local_address())));
}

TEST(streams, carry_text_strings_and_elements_without_a_cast) {
  stream_pair pair;
  const std::string word = "second";
  const std::vector<std::uint32_t> numbers{1, 2, 0xffffffff};

  pair.client.write_all("first ").value();
  pair.client.write_all(word).value();
  pair.client.write_all(numbers).value();

  std::string text(12, ' ');
  std::vector<std::uint32_t> received(3);
  pair.server.read_exactly(text).value();
  pair.server.read_exactly(received).value();
  EXPECT_EQ(text, "first second") << "without the zero at the end of a literal";
  EXPECT_EQ(received, numbers);
}

TEST(stream_listener, accept_times_out) {
  const auto waiting = stream_listener::listen(own_address()).value();
  const auto nobody = waiting.accept(50ms);
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error(), std::errc::timed_out);
  EXPECT_FALSE(waiting.try_accept().value().has_value());
}

TEST(stream_listener, accepts_a_peer_that_is_already_waiting) {
  const auto waiting = stream_listener::listen(own_address()).value();
  auto asking =
      std::async(std::launch::async, [&] { return stream::connect(waiting.local_address()); });
  ASSERT_TRUE(wait_readable(waiting.fd(), patience).value());
  std::optional<stream> server;
  wait_until("a stream", [&] {
    server = waiting.try_accept().value();
    return server.has_value();
  });
  auto client = asking.get().value();
  expect_bytes(client, *server, 1000, 1);
}

TEST(stream_listener, connecting_without_a_listener_fails) {
  const auto gone = stream_listener::listen(own_address()).value().local_address();
  const auto failed = stream::connect(gone, {.connect_timeout = patience});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::connection_refused) << failed.error();
}

TEST(stream_listener, a_client_that_gave_up_is_an_error_of_category_peer) {
  const auto waiting = stream_listener::listen(own_address()).value();
  const auto impatient = stream::connect(waiting.local_address(), {.connect_timeout = 300ms});
  ASSERT_FALSE(impatient.has_value());
  EXPECT_EQ(impatient.error(), std::errc::timed_out) << impatient.error();
  const auto gone = waiting.accept(patience);
  ASSERT_FALSE(gone.has_value());
  EXPECT_EQ(gone.error().category(), error_category::peer) << gone.error();
  EXPECT_THAT(gone.error().message(), HasSubstr("accepting"));
}

TEST(stream_listener, connecting_without_a_port_is_refused) {
  auto nowhere = describe(own_address());
  nowhere.erase(nowhere.rfind(':'));
  const auto failed = stream::connect(nowhere);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().category(), error_category::misuse) << failed.error();
  EXPECT_EQ(cm::connect(nowhere).error().category(), error_category::misuse);
}

TEST(stream_listener, rejects_a_peer_with_another_protocol) {
  const auto waiting = stream_listener::listen(own_address()).value();
  auto asking = std::async(std::launch::async, [&] {
    return cm::connect(waiting.local_address(),
                       {.parameters = {.private_data = bytes_of("hello")}});
  });
  const auto stranger = waiting.accept(patience);
  ASSERT_FALSE(stranger.has_value());
  EXPECT_EQ(stranger.error().category(), error_category::peer);
  const auto refused = asking.get();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().category(), error_category::peer) << refused.error();
}

TEST(stream_listener, a_client_is_told_that_the_server_speaks_another_version) {
  const auto waiting = cm::listen(own_address()).value();
  auto asking = std::async(std::launch::async, [&] {
    return stream::connect(waiting.local_address(), {.connect_timeout = patience});
  });
  auto request = waiting.get_request(patience);
  ASSERT_TRUE(request.has_value());
  const stream_protocol::greeting other{.lowest = 7, .highest = 9};
  std::move(*request).reject(other.to_bytes()).value();
  const auto refused = asking.get();
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), HasSubstr("7 to 9"));
}

TEST(stream_listener, its_destructor_rejects_pending_requests) {
  std::vector<std::future<result<stream>>> asking;
  {
    const auto waiting = stream_listener::listen(own_address()).value();
    for (int i = 0; i < 3; ++i) {
      asking.push_back(std::async(std::launch::async, [at = waiting.local_address()] {
        return stream::connect(at, {.connect_timeout = patience});
      }));
    }
    wait_until("a request", [&] { return wait_readable(waiting.fd(), 1s).value(); });
  }
  for (auto& each : asking) EXPECT_FALSE(each.get().has_value());
}

}  // namespace

}  // namespace rdmaxx::device_tests
