// Queue pair 1: management datagrams (chapter 13). All processes of a host share it, as they share
// UDP port 4791. The only datagrams that this device knows are those of the connection manager.
//
// A datagram finds its process without a table. A request goes to the handoff socket that is named
// after the service it asks for. Any other message goes to the port in the upper half of the
// communication id (comm id) that it is addressed to. Within a host it goes there by UDP, so that
// the kernel tells the receiver the sender's address and port.
#pragma once

#include <cstdint>
#include <span>

#include <engine/abstract_name.hpp>
#include <net/address.hpp>
#include <wire/cm_message.hpp>
#include <wire/icrc.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {

class netdev_port;

struct management_datagram {
  wire::cm_message message;
  net::address source;
  net::address destination;
  /// How it arrived, which decides who vouches for its source.
  enum class arrival : std::uint8_t {
    roce_port,  ///< UDP port 4791: the kernel, or a trusted process that handed it on
    own_port,   ///< a port of this process: the kernel
    service     ///< the handoff socket of a service: see net::owns_udp_socket
  } arrived_by = arrival::roce_port;
  std::uint16_t source_port = 0;
};

/// Handles the datagrams for this process. It is called from any thread, with locks of the device
/// held: it may only queue them.
using management_handler = void (*)(const management_datagram&);
void set_management_handler(management_handler handler) noexcept;

/// Learns that a queue pair has received its first data: the peer is connected, even if its RTU was
/// lost. Called like the handler above.
using data_handler = void (*)(std::uint32_t qpn);
void set_data_handler(data_handler handler) noexcept;
void first_data_came(std::uint32_t qpn);

/// The handoff socket of the service on that address; all zeros stand for every address of its
/// family.
[[nodiscard]] abstract_name service_name(std::uint64_t service_id, const net::address& own);

/// Sends a message to the host with that address. Returns 0 or an errno: ECONNREFUSED if `to` is
/// this host and no process of it would receive the message.
[[nodiscard]] int send_management(netdev_port& from, const net::address& own,
                                  const net::address& to, const wire::cm_message& message);

/// Gives packets for queue pair 1 that arrived at UDP port 4791 to their processes.
void dispatch_management(netdev_port& place, const wire::flow& flow,
                         std::span<const std::byte> packets, std::size_t segment_bytes);
/// Takes a packet that is for this process.
void receive_management(const wire::flow& flow, const wire::packet& packet,
                        management_datagram::arrival arrived_by);

}  // namespace softverbs::engine
