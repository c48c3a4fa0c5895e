// Which of the sockets of UDP port 4791 the kernel puts a packet into.
//
// A QPN is a process's UDP port and an index, so the packet itself says whose it is. A classic BPF
// program, which needs no privilege, reads that port in the transport header and chooses the
// socket: all packets of one process come, in the order of the wire, into one socket. What belongs
// to no process alone (queue pair 1, queue pair 0xffffff of groups, whatever is no packet) comes
// into slot 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <engine/host_protocol.hpp>
#include <linux/filter.h>

namespace softverbs::engine::receive_steering {

/// What all processes read.
inline constexpr unsigned common_slot = 0;
/// Queue pair numbers below this port belong to other kinds of RoCE devices, which count from 0.
inline constexpr std::uint16_t lowest_port = 1024;

/// The slot for the packets to the queue pairs of a process's port.
[[nodiscard]] constexpr unsigned slot_of(std::uint16_t port) noexcept {
  if (port < lowest_port || port == 0xffff) return common_slot;
  return 1 + port % (host_protocol::port_slots - 1);
}

/// The same as a program that the kernel runs on the payload of a UDP datagram.
[[nodiscard]] std::array<sock_filter, 7> program();

/// Attaches the program to all sockets that share the port of this one; false with errno.
[[nodiscard]] bool attach(int fd);

}  // namespace softverbs::engine::receive_steering
