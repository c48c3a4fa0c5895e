#include "ping.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace rdmaxx::tool {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t warm_up_round_trips = 10;

void receive(connection& side, std::uint64_t expected) {
  side.wait_until_received(side.received() + 1);
  if (side.message() != expected) {
    throw std::runtime_error(
        fmt::format("message {:#x} arrived instead of {:#x}", side.message(), expected));
  }
}

}  // namespace

ping_summary summarize(std::vector<std::chrono::nanoseconds> round_trips) {
  if (round_trips.empty()) return {};
  std::ranges::sort(round_trips);
  const auto last = round_trips.size() - 1;
  return {
      .round_trips = round_trips.size(),
      .minimum = round_trips.front(),
      .median = round_trips[last / 2],
      .p99 = round_trips[last * 99 / 100],
  };
}

std::chrono::nanoseconds round_trip(connection& here, connection& there, std::uint64_t message) {
  const auto here_sent = here.sent() + 1;
  const auto there_sent = there.sent() + 1;
  here.expect_message();
  there.expect_message();
  const auto start = clock::now();
  here.send_message(message);
  receive(there, message);
  there.send_message(~message);
  receive(here, ~message);
  const auto time = clock::now() - start;
  // The buffers are free for the next message only when their sends have completed.
  here.wait_until_sent(here_sent);
  there.wait_until_sent(there_sent);
  return time;
}

ping_summary ping(connection& here, connection& there, const ping_limits& limits) {
  std::uint64_t message = 0x0123456789abcdef;
  for (std::size_t i = 0; i < warm_up_round_trips; ++i) (void)round_trip(here, there, ++message);
  std::vector<std::chrono::nanoseconds> times;
  times.reserve(limits.round_trips);
  for (const auto end = clock::now() + limits.time;
       times.size() < limits.round_trips && clock::now() < end;) {
    times.push_back(round_trip(here, there, ++message));
  }
  return summarize(std::move(times));
}

}  // namespace rdmaxx::tool
