#pragma once

// cm_conversation: two sides of one process that talk through the connection manager.

#include <cstddef>
#include <cstdint>
#include <future>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "completion_waiter.hpp"
#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

/// The device's own address; throws if its interface has none.
[[nodiscard]] socket_address own_address(std::uint16_t port = 0);
/// Whether that is a loopback address: rdma_cm then assigns no device at bind().
[[nodiscard]] bool own_address_is_loopback();
/// The errno of rdma_cm for a second bind to a port of own_address().
[[nodiscard]] std::errc error_of_taken_port();
/// A global IPv6 address of the device, or an empty one.
[[nodiscard]] socket_address own_ipv6_address(std::uint16_t port = 0);

[[nodiscard]] std::vector<std::byte> bytes_of(std::string_view text);
/// A peer's private data without the padding.
[[nodiscard]] std::string text_of(std::span<const std::byte> private_data);

/// The next event of the channel; throws if it is not of this type.
[[nodiscard]] cm_event expect_event(const event_channel& channel, cm_event_type type);

/// An identifier with a resolved route to `peer`.
[[nodiscard]] cm_id resolved_id(const event_channel& channel, const socket_address& peer,
                                port_space space = port_space::tcp);

/// A connection within this process.
struct cm_conversation {
  cm::listener listener{};
  cm::connection client{};
  cm::connection server{};

  explicit cm_conversation(const socket_address& at = own_address(),
                           const cm::connect_options& asking = {},
                           const cm::accept_options& accepting = {});
};

/// The bytes that one side sends arrive at the other one.
[[nodiscard]] ::testing::AssertionResult bytes_pass(const queue_pair& from, const queue_pair& to,
                                                    std::uint64_t seed);

}  // namespace rdmaxx::device_tests
