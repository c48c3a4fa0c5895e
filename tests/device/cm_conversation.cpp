#include "cm_conversation.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "byte_pattern.hpp"

namespace rdmaxx::device_tests {

socket_address own_address(std::uint16_t port) {
  const auto& netdev = device_under_test::get().netdev();
  if (!netdev || !netdev->ipv4)
    throw std::runtime_error("the device's network interface has no IPv4 address");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr = *netdev->ipv4;
  return socket_address(address).with_port(port);
}

bool own_address_is_loopback() { return own_address().host().starts_with("127."); }

std::errc error_of_taken_port() {
  // A loopback address counts as one that stands for all.
  return own_address_is_loopback() ? std::errc::address_not_available : std::errc::address_in_use;
}

socket_address own_ipv6_address(std::uint16_t port) {
  const auto& netdev = device_under_test::get().netdev();
  if (!netdev || !netdev->ipv6) return {};
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = *netdev->ipv6;
  return socket_address(address).with_port(port);
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> private_data) {
  const std::string all(reinterpret_cast<const char*>(private_data.data()), private_data.size());
  return all.substr(0, all.find('\0'));
}

cm_event expect_event(const event_channel& channel, cm_event_type type) {
  auto event = channel.get_event(patience).value();
  if (event.type() != type)
    throw std::runtime_error(fmt::format("{} came instead of {}", describe(event), describe(type)));
  return event;
}

cm_id resolved_id(const event_channel& channel, const socket_address& peer, port_space space) {
  auto id = channel.create_id(space).value();
  id.resolve_addr(peer, patience).value();
  expect_event(channel, cm_event_type::addr_resolved).acknowledge();
  id.resolve_route(patience).value();
  expect_event(channel, cm_event_type::route_resolved).acknowledge();
  return id;
}

cm_conversation::cm_conversation(const socket_address& at, const cm::connect_options& asking,
                                 const cm::accept_options& accepting)
    : listener(cm::listen(at).value()) {
  const auto where =
      at.is_any() ? own_address(listener.local_address().port()) : listener.local_address();
  auto connecting = std::async(std::launch::async, [&] {
    auto patient = asking;
    patient.timeout = patience;
    return cm::connect(where, patient);
  });
  auto patient = accepting;
  patient.timeout = patience;
  auto accepted = listener.accept(patient);
  client = connecting.get().value();
  server = std::move(accepted).value();
}

::testing::AssertionResult bytes_pass(const queue_pair& from, const queue_pair& to,
                                      std::uint64_t seed) {
  constexpr std::size_t bytes = 3000;
  const auto outgoing = from.pd().allocate_local({.bytes = bytes}).value();
  const auto incoming = to.pd().allocate_local({.bytes = bytes}).value();
  fill_pattern(outgoing.bytes(), seed);
  to.post(recv_wr{.into = incoming.scatter()}).value();
  from.post(send_wr{.from = outgoing.gather()}).value();
  wait_for_success(from.send_cq());
  if (const auto arrived = wait_for_success(to.recv_cq()).byte_len(); arrived != bytes)
    return ::testing::AssertionFailure() << arrived << " bytes arrived";
  return same_bytes(incoming.bytes(), outgoing.bytes());
}

}  // namespace rdmaxx::device_tests
