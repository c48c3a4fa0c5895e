// Streams between two devices of the kernel whose packets cross a cable: the check `streams over a
// wire` runs these in a guest that has one. Other guests have none, so they are disabled there.

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"

namespace rdmaxx::device_tests {

namespace {

socket_address end_of_wire(const char* variable) {
  const char* const text =
      std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): no thread changes it
  if (text == nullptr) throw std::runtime_error(std::string(variable) + " is not set");
  return socket_address::parse(text).value();
}

/// That have left through this interface.
long packets_of(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/statistics/tx_packets");
  long count = 0;
  file >> count;
  return count;
}

void expect_streams_between(const socket_address& here, const socket_address& there) {
  const auto waiting = stream_listener::listen(there).value();
  const auto sent_before = packets_of("wire0");
  const auto answered_before = packets_of("wire1");
  auto asking = std::async(std::launch::async, [&] {
    return stream::connect(waiting.local_address(), {.read_timeout = patience,
                                                     .write_timeout = patience,
                                                     .connect_timeout = patience,
                                                     .source = here});
  });
  auto server = waiting.accept(patience).value();
  auto client = asking.get().value();
  constexpr std::size_t bytes = 2'000'000;
  std::vector<std::byte> sent(bytes);
  fill_pattern(sent, 9);
  std::vector<std::byte> got(bytes);
  auto writing = std::async(std::launch::async, [&] { return client.write_all(sent); });
  server.read_exactly(got).value();
  writing.get().value();
  EXPECT_TRUE(same_bytes(got, sent));
  auto answering = std::async(std::launch::async, [&] { return server.write_all(got); });
  std::vector<std::byte> back(bytes);
  client.read_exactly(back).value();
  answering.get().value();
  EXPECT_TRUE(same_bytes(back, sent));
  auto closing = std::async(std::launch::async, [&] { return server.close(patience); });
  client.close(patience).value();
  closing.get().value();

  // Of 1024 bytes each at most, and each way.
  EXPECT_GT(packets_of("wire0") - sent_before, 1900);
  EXPECT_GT(packets_of("wire1") - answered_before, 1900);
}

TEST(stream_wire, DISABLED_two_kernel_devices_over_ipv4) {
  expect_streams_between(end_of_wire("RDMAXX_TESTBED_WIRE0_ADDRESS"),
                         end_of_wire("RDMAXX_TESTBED_WIRE1_ADDRESS"));
}

TEST(stream_wire, DISABLED_two_kernel_devices_over_ipv6) {
  expect_streams_between(end_of_wire("RDMAXX_TESTBED_WIRE0_ADDRESS6"),
                         end_of_wire("RDMAXX_TESTBED_WIRE1_ADDRESS6"));
}

}  // namespace

}  // namespace rdmaxx::device_tests
