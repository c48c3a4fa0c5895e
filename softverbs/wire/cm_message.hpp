// The messages of the connection manager (chapter 12): management datagrams of 256 bytes between
// the queue pairs 1 of two hosts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <net/address.hpp>

namespace softverbs::wire {

inline constexpr std::uint32_t management_qpn = 1;
inline constexpr std::uint32_t management_qkey = 0x8001'0000;
inline constexpr std::size_t mad_bytes = 256;
using mad = std::array<std::byte, mad_bytes>;

/// The attribute that a datagram carries (16.7.1).
enum class cm_kind : std::uint16_t {
  req = 0x10,   ///< request for communication (12.6.5)
  mra = 0x11,   ///< message receipt acknowledgment (12.6.6)
  rej = 0x12,   ///< reject (12.6.7)
  rep = 0x13,   ///< reply to a request (12.6.8)
  rtu = 0x14,   ///< ready to use (12.6.9)
  dreq = 0x15,  ///< request for communication release (12.6.10)
  drep = 0x16,  ///< reply to that (12.6.11)
  sidr_req = 0x17,
  sidr_rep = 0x18,
};

/// The message that an MRA or a REJ answers.
enum class cm_answered : std::uint8_t { req = 0, rep = 1, other = 2 };

/// The reasons of a REJ that this device gives or knows (table 108).
enum class reject_reason : std::uint16_t {
  no_resources = 3,
  timeout = 4,
  invalid_id = 6,
  invalid_service = 8,
  stale_connection = 10,
  consumer = 28,
  vendor_options = 35,
};

enum class sidr_status : std::uint8_t { success = 0, unsupported = 1, rejected = 2, no_qp = 3 };

/// Every field of every message; which of them count follows from `kind`. Host byte order.
struct cm_message {
  cm_kind kind = cm_kind::req;
  std::uint64_t transaction = 0;
  // Enhanced connection establishment: what vendors agree on among themselves.
  std::uint32_t vendor_id = 0;
  std::uint32_t vendor_options = 0;
  std::uint32_t local_id = 0;  ///< the sender's communication id; in a SIDR message: the request id
  std::uint32_t remote_id = 0;

  std::uint64_t service_id = 0;
  std::uint64_t ca_guid = 0;
  std::uint32_t qkey = 0;
  std::uint32_t qpn = 0;
  std::uint32_t starting_psn = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t transport_service = 0;   ///< 0 RC, 1 UC, 3 as `extended_transport` says
  std::uint8_t extended_transport = 0;  ///< 1 XRC
  bool flow_control = false;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  bool srq = false;
  std::uint16_t pkey = 0xffff;
  std::uint8_t path_mtu = 0;
  std::uint8_t remote_response_timeout = 0;  ///< 4.096 µs · 2^…
  std::uint8_t local_response_timeout = 0;
  std::uint8_t max_cm_retries = 0;

  // The primary path of a request.
  std::uint16_t local_lid = 0;
  std::uint16_t remote_lid = 0;
  net::address local_gid{};
  net::address remote_gid{};
  std::uint32_t flow_label = 0;
  std::uint8_t packet_rate = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t service_level = 0;
  bool subnet_local = false;
  std::uint8_t ack_timeout = 0;

  std::uint8_t target_ack_delay = 0;
  std::uint8_t failover = 0;

  cm_answered answered = cm_answered::req;
  std::uint8_t service_timeout = 0;
  std::uint16_t reason = 0;  ///< a reject_reason, or one that is not known here
  sidr_status status = sidr_status::success;
  std::uint8_t additional_bytes = 0;  ///< of the additional information in a REJ or a SIDR_REP
  std::array<std::byte, 72> additional{};

  /// private_bytes(kind) of them count.
  std::array<std::byte, 224> private_data{};

  friend bool operator==(const cm_message&, const cm_message&) = default;
};

/// A REJ with reason "timeout" names its sender by the CA GUID of its REQ (12.6.7.2).
void put_guid(cm_message& message, std::uint64_t guid) noexcept;
[[nodiscard]] std::uint64_t guid_in(const cm_message& message) noexcept;

/// Whether a REJ withdraws a REQ whose receiver's comm id the sender does not know yet.
[[nodiscard]] bool withdraws_request(const cm_message& message) noexcept;
/// Whether the message is for the provider of a service: a request, or a withdrawn one.
[[nodiscard]] bool is_for_service(const cm_message& message) noexcept;
/// The answer to a message whose service or comm id is unknown here (12.6, 12.9.8). Nothing if such
/// a message is ignored.
[[nodiscard]] std::optional<cm_message> answer_without_receiver(const cm_message& message) noexcept;

[[nodiscard]] std::size_t private_bytes(cm_kind kind) noexcept;

/// Nothing if the datagram is not a message of the connection manager, or of an unknown kind.
[[nodiscard]] std::optional<cm_message> decode_cm(std::span<const std::byte> datagram) noexcept;
[[nodiscard]] mad encode(const cm_message& message) noexcept;

}  // namespace softverbs::wire
