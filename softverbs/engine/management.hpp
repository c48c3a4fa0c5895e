// Queue pair 1: management datagrams (chapter 13), which all processes of a host share as they
// share UDP port 4791. The only ones that this device knows are those of the connection manager.
//
// A datagram finds its process without a table: requests go to the mailbox that is named after the
// service they ask for, all others to the port in the upper half of the communication identifier
// that they answer to. Within a host they go there by UDP, so that the receiver knows address and
// port of the sender from the kernel, whoever that is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <engine/abstract_name.hpp>
#include <net/address.hpp>
#include <wire/cm_message.hpp>
#include <wire/icrc.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {

class station;

struct management_datagram {
  wire::cm_message message;
  net::address source;
  net::address destination;
  /// How it came, and with that who vouches for its source.
  enum class way : std::uint8_t {
    well_known_port,  ///< the kernel, or a trusted process that handed it on
    own_port,         ///< the kernel
    service,          ///< the mailbox of a service: see net::owns_udp_socket
    this_process      ///< nobody has to
  } came = way::this_process;
  std::uint16_t source_port = 0;
};

/// Who handles the datagrams that are for this process. Called from any thread, with locks of the
/// device held: it may only put them aside.
using management_handler = void (*)(const management_datagram&);
void set_management_handler(management_handler handler) noexcept;

/// Who is told that the first data has come to a queue pair: its peer is connected, whatever has
/// become of its word. As above.
using data_handler = void (*)(std::uint32_t qpn);
void set_data_handler(data_handler handler) noexcept;
void first_data_came(std::uint32_t qpn);

/// Who provides the service on that address; all zeros stand for every address of its family.
[[nodiscard]] abstract_name service_name(std::uint64_t service_id, const net::address& own);

/// Sends it to the host with that address. 0, or an errno: ECONNREFUSED if nobody of this host
/// waits for it.
[[nodiscard]] int send_management(station& from, const net::address& own, const net::address& to,
                                  const wire::cm_message& message);

/// What the sender of a message is told that nobody wants (12.6, 12.9.8); nothing if that is
/// silence.
[[nodiscard]] std::optional<wire::cm_message> answer_of_nobody(const wire::cm_message& message);

/// Packets for queue pair 1 that came through the well-known port: given to their processes.
void sort_management(station& place, const wire::flow& flow, std::span<const std::byte> packets,
                     std::size_t segment_bytes);
/// A packet that is for this process.
void receive_management(const wire::flow& flow, const wire::packet& packet,
                        management_datagram::way came);

/// Whether it is for whoever provides a service: a request, or one that is taken back.
[[nodiscard]] bool asks_for_service(const wire::cm_message& message);

}  // namespace softverbs::engine
