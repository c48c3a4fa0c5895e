#include <wire/cm_message.hpp>

#include <algorithm>

#include <wire/big_endian.hpp>

namespace softverbs::wire {
namespace {

constexpr std::size_t header_bytes = 24;
constexpr std::uint8_t cm_class = 0x07;
constexpr std::uint8_t cm_class_version = 2;
constexpr std::uint8_t method_send = 0x03;

// A REP carries its vendor id in three bytes that used to be reserved, the lowest first.
constexpr std::array<std::size_t, 3> reply_vendor_bytes{15, 19, 23};

/// Where the private data of a kind begins, behind the header, and how long it is.
struct private_place {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

private_place place_of(cm_kind kind) noexcept {
  switch (kind) {
    case cm_kind::req:
      return {140, 92};
    case cm_kind::mra:
      return {10, 222};
    case cm_kind::rej:
      return {84, 148};
    case cm_kind::rep:
      return {36, 196};
    case cm_kind::rtu:
    case cm_kind::drep:
      return {8, 224};
    case cm_kind::dreq:
      return {12, 220};
    case cm_kind::sidr_req:
      return {16, 216};
    case cm_kind::sidr_rep:
      return {96, 136};
  }
  return {};
}

/// Calls `field` once for each field of the message, with its value and its place in bits: the same
/// list reads and writes. Values are narrower than 64 bits, or exactly that.
template <class Message, class Field>
void for_each_field(Message& m, const Field& field) {
  const auto at = [](std::size_t byte, std::size_t bit = 0) { return byte * 8 + bit; };
  const auto ids = [&] {
    field(m.local_id, at(0), 32);
    field(m.remote_id, at(4), 32);
  };
  switch (m.kind) {
    case cm_kind::req:
      field(m.local_id, at(0), 32);
      field(m.service_id, at(8), 64);
      field(m.ca_guid, at(16), 64);
      field(m.vendor_id, at(24), 24);
      field(m.qkey, at(28), 32);
      field(m.qpn, at(32), 24);
      field(m.responder_resources, at(35), 8);
      field(m.initiator_depth, at(39), 8);
      field(m.remote_response_timeout, at(43), 5);
      field(m.transport_service, at(43, 5), 2);
      field(m.flow_control, at(43, 7), 1);
      field(m.starting_psn, at(44), 24);
      field(m.local_response_timeout, at(47), 5);
      field(m.retry_count, at(47, 5), 3);
      field(m.pkey, at(48), 16);
      field(m.path_mtu, at(50), 4);
      field(m.rnr_retry_count, at(50, 5), 3);
      field(m.max_cm_retries, at(51), 4);
      field(m.srq, at(51, 4), 1);
      field(m.extended_transport, at(51, 5), 3);
      field(m.local_lid, at(52), 16);
      field(m.remote_lid, at(54), 16);
      for (std::size_t i = 0; i < m.local_gid.raw.size(); ++i) {
        field(m.local_gid.raw[i], at(56 + i), 8);
        field(m.remote_gid.raw[i], at(72 + i), 8);
      }
      field(m.flow_label, at(88), 20);
      field(m.packet_rate, at(91, 2), 6);
      field(m.traffic_class, at(92), 8);
      field(m.hop_limit, at(93), 8);
      field(m.service_level, at(94), 4);
      field(m.subnet_local, at(94, 4), 1);
      field(m.ack_timeout, at(95), 5);
      break;
    case cm_kind::mra:
      ids();
      field(m.answered, at(8), 2);
      field(m.service_timeout, at(9), 5);
      break;
    case cm_kind::rej:
      ids();
      field(m.answered, at(8), 2);
      field(m.additional_bytes, at(9), 7);
      field(m.reason, at(10), 16);
      for (std::size_t i = 0; i < m.additional.size(); ++i) field(m.additional[i], at(12 + i), 8);
      break;
    case cm_kind::rep:
      ids();
      field(m.qkey, at(8), 32);
      field(m.qpn, at(12), 24);
      field(m.starting_psn, at(20), 24);
      field(m.responder_resources, at(24), 8);
      field(m.initiator_depth, at(25), 8);
      field(m.target_ack_delay, at(26), 5);
      field(m.failover, at(26, 5), 2);
      field(m.flow_control, at(26, 7), 1);
      field(m.rnr_retry_count, at(27), 3);
      field(m.srq, at(27, 3), 1);
      field(m.ca_guid, at(28), 64);
      break;
    case cm_kind::rtu:
    case cm_kind::drep:
      ids();
      break;
    case cm_kind::dreq:
      ids();
      field(m.qpn, at(8), 24);
      break;
    case cm_kind::sidr_req:
      field(m.local_id, at(0), 32);
      field(m.pkey, at(4), 16);
      field(m.service_id, at(8), 64);
      break;
    case cm_kind::sidr_rep:
      field(m.local_id, at(0), 32);
      field(m.status, at(4), 8);
      field(m.additional_bytes, at(5), 8);
      field(m.qpn, at(8), 24);
      field(m.service_id, at(12), 64);
      field(m.qkey, at(20), 32);
      for (std::size_t i = 0; i < m.additional.size(); ++i) field(m.additional[i], at(24 + i), 8);
      break;
  }
}

std::uint64_t read_bits(std::span<const std::byte> from, std::size_t bit, std::size_t bits) {
  std::uint64_t value = 0;
  for (std::size_t i = bit; i < bit + bits; ++i) {
    value = value << 1U | (std::to_integer<std::uint64_t>(from[i / 8]) >> (7 - i % 8) & 1U);
  }
  return value;
}

void write_bits(std::span<std::byte> into, std::size_t bit, std::size_t bits, std::uint64_t value) {
  for (std::size_t i = bit + bits; i-- > bit; value >>= 1U) {
    if ((value & 1U) != 0) into[i / 8] |= static_cast<std::byte>(0x80U >> i % 8);
  }
}

}  // namespace

void put_guid(cm_message& message, std::uint64_t guid) noexcept {
  message.additional_bytes = sizeof guid;
  store_big(message.additional.data(), guid);
}

std::uint64_t guid_in(const cm_message& message) noexcept {
  return load_big<std::uint64_t>(message.additional.data());
}

bool withdraws_request(const cm_message& message) noexcept {
  return message.kind == cm_kind::rej && message.remote_id == 0;
}

bool is_for_service(const cm_message& message) noexcept {
  // A withdrawal has to reach the process that got the request.
  return message.kind == cm_kind::req || message.kind == cm_kind::sidr_req ||
         withdraws_request(message);
}

std::optional<cm_message> answer_without_receiver(const cm_message& message) noexcept {
  cm_message answer{.transaction = message.transaction,
                    .local_id = message.remote_id,
                    .remote_id = message.local_id};
  switch (message.kind) {
    case cm_kind::req:
      answer.kind = cm_kind::rej;
      answer.answered = cm_answered::req;
      answer.reason = static_cast<std::uint16_t>(reject_reason::invalid_service);
      return answer;
    case cm_kind::rep:
      answer.kind = cm_kind::rej;
      answer.answered = cm_answered::rep;
      answer.reason = static_cast<std::uint16_t>(reject_reason::invalid_id);
      return answer;
    case cm_kind::dreq:
      answer.kind = cm_kind::drep;
      return answer;
    case cm_kind::sidr_req:
      answer.kind = cm_kind::sidr_rep;
      answer.local_id = message.local_id;
      answer.status = sidr_status::unsupported;
      answer.service_id = message.service_id;
      return answer;
    default:
      return std::nullopt;
  }
}

std::size_t private_bytes(cm_kind kind) noexcept { return place_of(kind).bytes; }

std::optional<cm_message> decode_cm(std::span<const std::byte> datagram) noexcept {
  if (datagram.size() < mad_bytes) return std::nullopt;
  const auto byte = [&](std::size_t at) { return std::to_integer<std::uint8_t>(datagram[at]); };
  if (byte(0) != 1 || byte(1) != cm_class || byte(2) != cm_class_version || byte(3) != method_send)
    return std::nullopt;
  cm_message message;
  message.transaction = read_bits(datagram, 64, 64);
  message.kind = static_cast<cm_kind>(read_bits(datagram, 128, 16));
  message.vendor_options = static_cast<std::uint32_t>(read_bits(datagram, 160, 32));
  const auto place = place_of(message.kind);
  if (place.bytes == 0) return std::nullopt;
  const auto body = datagram.subspan(header_bytes, mad_bytes - header_bytes);
  for_each_field(message, [&](auto& value, std::size_t bit, std::size_t bits) {
    value = static_cast<std::remove_reference_t<decltype(value)>>(read_bits(body, bit, bits));
  });
  if (message.kind == cm_kind::rep) {
    for (std::size_t i = 0; i < reply_vendor_bytes.size(); ++i)
      message.vendor_id |= std::to_integer<std::uint32_t>(body[reply_vendor_bytes[i]]) << 8 * i;
  }
  std::ranges::copy(body.subspan(place.offset, place.bytes), message.private_data.begin());
  return message;
}

mad encode(const cm_message& message) noexcept {
  mad datagram{};
  const std::span whole(datagram);
  write_bits(whole, 0, 8, 1);
  write_bits(whole, 8, 8, cm_class);
  write_bits(whole, 16, 8, cm_class_version);
  write_bits(whole, 24, 8, method_send);
  write_bits(whole, 64, 64, message.transaction);
  write_bits(whole, 128, 16, static_cast<std::uint16_t>(message.kind));
  write_bits(whole, 160, 32, message.vendor_options);
  const auto body = whole.subspan(header_bytes);
  for_each_field(message, [&](const auto& value, std::size_t bit, std::size_t bits) {
    write_bits(body, bit, bits, static_cast<std::uint64_t>(value));
  });
  if (message.kind == cm_kind::rep) {
    for (std::size_t i = 0; i < reply_vendor_bytes.size(); ++i)
      body[reply_vendor_bytes[i]] = static_cast<std::byte>(message.vendor_id >> 8 * i);
  }
  const auto place = place_of(message.kind);
  std::ranges::copy_n(message.private_data.begin(), static_cast<std::ptrdiff_t>(place.bytes),
                      body.subspan(place.offset).begin());
  return datagram;
}

}  // namespace softverbs::wire
