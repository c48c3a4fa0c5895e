// What the processes of one host say to each other over AF_UNIX: the names that they meet under and
// the messages that they send. Everything here is the word of another process; who it is, the
// kernel tells (net/credentials.hpp), and whoever receives checks the rest.
#pragma once

#include <cstddef>
#include <cstdint>

#include <engine/abstract_name.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <net/address.hpp>

namespace softverbs::engine::host_protocol {

/// The datagram socket of whoever holds the address and port: packets are handed over to it.
inline abstract_name handoff_name(const net::address& own, std::uint16_t port) {
  return abstract_name(fmt::format("softverbs/{}/{}", own.text(), port));
}

/// Its listening SOCK_SEQPACKET socket: it takes packet rings.
inline abstract_name ring_listener_name(const net::address& own, std::uint16_t port) {
  return abstract_name(fmt::format("softverbs/ring/{}/{}", own.text(), port));
}

/// The listening SOCK_SEQPACKET socket of those who share UDP port 4791 of the address.
inline abstract_name roce_port_name(const net::address& own) {
  return abstract_name(fmt::format("softverbs/4791/{}", own.text()));
}

/// Over a connection to that, a newcomer is given two descriptors with a message of one byte: the
/// queue that the sockets of the port are parked in (socket_pool.hpp), and the listening socket.
inline constexpr std::size_t descriptors_for_newcomers = 2;

/// How many sockets the port has: one for what everybody reads, the others for one process each.
inline constexpr unsigned port_slots = 64;

/// A socket that is bound to this name, and does nothing else, is the claim of one process to a
/// slot on all addresses of the netdev.
inline abstract_name slot_name(unsigned netdev_index, unsigned slot) {
  return abstract_name(fmt::format("softverbs/slot/{}/{}", netdev_index, slot));
}

/// In front of packets that are handed over.
struct handoff_header {
  net::address source{};
  net::address destination{};
  std::uint16_t source_port = 0;
  std::uint16_t kind = 0;  ///< 0: packets
  std::uint32_t segment_bytes = 0;
};

/// The first message over a connection to a ring listener, with the memory of the ring attached:
/// one memfd of ring::memory_bytes with ring_seals. All further messages, of one byte, wake the
/// reader; the end of the connection is the end of the ring, whichever side dies or closes it.
struct ring_offer {
  static constexpr std::uint32_t current_version = 1;
  std::uint32_t version = current_version;
  std::uint16_t source_port = 0;  ///< of the writer
  std::uint16_t reserved = 0;
  net::address source{};
};

/// Of all memory that processes share, so that nobody can change its size under another.
inline constexpr int ring_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace softverbs::engine::host_protocol
