#include "tour.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <stdexcept>

#include <fmt/format.h>

namespace rdmaxx::tool {

namespace {

constexpr std::size_t kib = 1024;
constexpr std::array message_sizes{4 * kib, 64 * kib, 1024 * kib};
/// Room for two of the largest messages; twice that is within the usual limit of locked memory, 8
/// MiB.
constexpr std::size_t memory_bytes = 2048 * kib;

void fill_with_noise(std::span<std::byte> bytes, unsigned seed) {
  std::minstd_rand noise(
      seed);  // NOLINT(cert-msc32-c,cert-msc51-cpp): reproducible bytes, not secrets
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(noise() >> 8U); });
}

void check_port(const device_choice& choice) {
  const auto port = choice.context().query_port(choice.port()).value();
  if (port.state == port_state::active) return;
  throw exception(errno_error("tour", ENETDOWN,
                              fmt::format("port {} of {} is {}", choice.port(),
                                          choice.context().device_name(), describe(port.state)),
                              "bring its network interface or its link up"));
}

/// Transfers random bytes to cleared memory, and checks that all of them arrived.
bandwidth_measured checked_transfer(connection& here, connection& there,
                                    const bandwidth_wanted& wanted) {
  const auto used = bytes_in_flight(here, wanted.message_bytes);
  const auto near = here.memory().bytes().first(used);
  const auto far = there.memory().bytes().first(used);
  const bool outward = wanted.kind == transfer::write;
  fill_with_noise(outward ? near : far, static_cast<unsigned>(wanted.message_bytes));
  std::ranges::fill(outward ? far : near, std::byte{0});
  const auto measured = measure(here, there.memory().remote(), wanted);
  // A completed WRITE has been received, but only a message after it proves that it is in memory.
  (void)round_trip(here, there, wanted.message_bytes);
  if (!std::ranges::equal(near, far)) {
    throw std::runtime_error(
        fmt::format("{} of {} bytes: the bytes that arrived differ from those sent",
                    describe(wanted.kind), wanted.message_bytes));
  }
  return measured;
}

}  // namespace

void tour(const std::string& device, tour_guest& guest) {
  guest.sees_devices(report_devices());
  // For an unknown name this error is clearer: it lists the available devices.
  if (!device.empty()) (void)open_device(device).value();
  const auto choice = pick_device({.name = device}).value();
  guest.sees_choice(choice);
  if (choice.context().transport() == transport_type::iwarp) {
    guest.sees_end(fmt::format(
        "{} is an iWARP device: its queue pairs are connected by rdma_cm, not by hand as here",
        choice.context().device_name()));
    return;
  }
  check_port(choice);

  connection here(choice, memory_bytes);
  connection there(choice, memory_bytes);
  here.connect(there.endpoint());
  there.connect(here.endpoint());
  guest.sees_connection(here, there);

  guest.sees_ping(ping(here, there, {}));
  for (const auto kind : {transfer::write, transfer::read}) {
    for (const auto bytes : message_sizes) {
      const bandwidth_wanted wanted{.kind = kind, .message_bytes = bytes};
      guest.sees_transfer(wanted, checked_transfer(here, there, wanted));
    }
  }
}

}  // namespace rdmaxx::tool
