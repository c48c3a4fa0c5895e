#include <wire/packet.hpp>

#include <array>
#include <cstring>
#include <initializer_list>

#include <wire/big_endian.hpp>

namespace softverbs::wire {
namespace {

// What follows the BTH, in this order. An opcode's layout is a set of these.
using layout = std::uint16_t;
constexpr layout xrceth = 1U << 0;
constexpr layout deth = 1U << 1;
constexpr layout reth = 1U << 2;
constexpr layout atomiceth = 1U << 3;
constexpr layout aeth = 1U << 4;
constexpr layout atomicacketh = 1U << 5;
constexpr layout immediate = 1U << 6;
constexpr layout ieth = 1U << 7;
constexpr layout reserved16 = 1U << 8;  // a CNP's (annex A17.9.3)
constexpr layout body = 1U << 9;        // payload and pad may follow
constexpr layout reserved = 1U << 10;   // an opcode without a meaning, which has to be answered

// Bytes of the headers above, by bit number.
constexpr std::array<std::uint8_t, 10> part_bytes{4, 8, 16, 28, 4, 8, 4, 4, 16, 0};

struct format {
  layout parts = 0;
  std::uint8_t bytes = 0;  // from the BTH to the payload; 0 marks an undefined opcode
};

constexpr std::uint8_t opcode(transport service, operation op) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(service) | static_cast<unsigned>(op));
}

// Tables 38 and 39, and annex A14 for XRC. Reliable datagrams have no place in `headers` and stay
// undefined.
constexpr std::array<format, 256> formats = [] {
  using enum operation;
  struct row {
    operation op;
    unsigned parts;
  };
  constexpr std::array sends_and_writes{
      row{send_first, body},         row{send_middle, body},
      row{send_last, body},          row{send_last_immediate, immediate | body},
      row{send_only, body},          row{send_only_immediate, immediate | body},
      row{write_first, reth | body}, row{write_middle, body},
      row{write_last, body},         row{write_last_immediate, immediate | body},
      row{write_only, reth | body},  row{write_only_immediate, reth | immediate | body},
  };
  constexpr std::array reliable_requests{
      row{read_request, reth},
      row{compare_swap, atomiceth},
      row{fetch_add, atomiceth},
      row{send_last_invalidate, ieth | body},
      row{send_only_invalidate, ieth | body},
  };
  constexpr std::array responses{
      row{read_response_first, aeth | body},
      row{read_response_middle, body},
      row{read_response_last, aeth | body},
      row{read_response_only, aeth | body},
      row{acknowledge, aeth},
      row{atomic_acknowledge, aeth | atomicacketh},
  };

  std::array<format, 256> table{};
  const auto define = [&table](transport service, operation op, unsigned parts) {
    format& entry = table[opcode(service, op)];
    entry.parts = static_cast<layout>(parts);
    entry.bytes = bth_bytes;
    for (std::size_t i = 0; i < part_bytes.size(); ++i) {
      if ((parts >> i) & 1U) entry.bytes = static_cast<std::uint8_t>(entry.bytes + part_bytes[i]);
    }
  };
  for (const auto& [op, parts] : sends_and_writes) {
    define(transport::rc, op, parts);
    define(transport::uc, op, parts);
    define(transport::xrc, op, xrceth | parts);
  }
  for (const auto& [op, parts] : reliable_requests) {
    define(transport::rc, op, parts);
    define(transport::xrc, op, xrceth | parts);
  }
  for (const auto& [op, parts] : responses) {
    define(transport::rc, op, parts);
    define(transport::xrc, op, parts);
  }
  define(transport::uc, acknowledge, aeth);
  define(transport::ud, send_only, deth | body);
  define(transport::ud, send_only_immediate, deth | immediate | body);
  define(transport::ud, acknowledge, deth | aeth);
  define(transport::cnp, send_middle, reserved16);  // opcode 0x81
  for (const auto service : {transport::rc, transport::xrc}) {
    for (unsigned op = 0; op < 32; ++op) {
      const auto reliable = static_cast<operation>(op);
      if (table[opcode(service, reliable)].bytes == 0) define(service, reliable, reserved | body);
    }
  }
  return table;
}();

}  // namespace

bool is_defined(transport service, operation op) noexcept {
  const auto& [parts, bytes] = formats[opcode(service, op)];
  return bytes != 0 && (parts & reserved) == 0;
}

std::size_t header_bytes(transport service, operation op) noexcept {
  return formats[opcode(service, op)].bytes;
}

std::optional<packet> decode(std::span<const std::byte> datagram) noexcept {
  // Every path returns this one object, so that it is built in the caller's place, not copied
  // there.
  std::optional<packet> result;
  static constexpr packet blank{};
  if (datagram.size() < bth_bytes + icrc_bytes) return result;
  const std::byte* at = datagram.data();
  const auto code = std::to_integer<std::uint8_t>(at[0]);
  const auto flags = std::to_integer<std::uint8_t>(at[1]);
  const auto [parts, bytes] = formats[code];
  const std::size_t pad_bytes = (flags >> 4) & 3U;
  constexpr unsigned version_mask = 0x0f;
  if (bytes == 0 || (flags & version_mask) != 0) return result;
  if (datagram.size() < bytes + pad_bytes + icrc_bytes) return result;
  const std::size_t rest = datagram.size() - bytes - icrc_bytes;
  if ((parts & body) == 0 && rest != 0) return result;

  packet& decoded = result.emplace(blank);
  decoded.payload = datagram.subspan(bytes, rest - pad_bytes);
  headers& header = decoded.header;
  header.service = static_cast<transport>(code & 0xe0U);
  header.op = static_cast<operation>(code & 0x1fU);
  header.solicited = (flags & 0x80U) != 0;
  header.pad_bytes = static_cast<std::uint8_t>(pad_bytes);
  header.pkey = load_big<std::uint16_t>(at + 2);
  header.destination_qpn = load_big<std::uint32_t>(at + 4) & qpn_mask;
  const auto request_and_psn = load_big<std::uint32_t>(at + 8);
  header.ack_request = (request_and_psn >> 31) != 0;
  header.psn = request_and_psn & psn_mask;
  at += bth_bytes;

  if (parts & xrceth) {
    header.xrc_srqn = load_big<std::uint32_t>(at) & qpn_mask;
    at += 4;
  }
  if (parts & deth) {
    header.qkey = load_big<std::uint32_t>(at);
    header.source_qpn = load_big<std::uint32_t>(at + 4) & qpn_mask;
    at += 8;
  }
  if (parts & (reth | atomiceth)) {
    header.remote_address = load_big<std::uint64_t>(at);
    header.rkey = load_big<std::uint32_t>(at + 8);
    at += 12;
  }
  if (parts & reth) {
    header.dma_length = load_big<std::uint32_t>(at);
    at += 4;
  }
  if (parts & atomiceth) {
    header.swap_or_add = load_big<std::uint64_t>(at);
    header.compare = load_big<std::uint64_t>(at + 8);
  }
  if (parts & aeth) {
    const auto word = load_big<std::uint32_t>(at);
    header.syndrome = static_cast<std::uint8_t>(word >> 24);
    header.msn = word & psn_mask;
    at += 4;
  }
  if (parts & atomicacketh) header.original = load_big<std::uint64_t>(at);
  if (parts & immediate) std::memcpy(&header.immediate, at, sizeof header.immediate);
  if (parts & ieth) header.invalidate_rkey = load_big<std::uint32_t>(at);
  return result;
}

std::size_t encode(const headers& header, std::byte* out) noexcept {
  const std::uint8_t code = opcode(header.service, header.op);
  const auto [parts, bytes] = formats[code];
  std::byte* at = out;

  const unsigned flags =
      (header.solicited ? 0x80U : 0U) | ((static_cast<unsigned>(header.pad_bytes) & 3U) << 4);
  at[0] = std::byte{code};
  at[1] = static_cast<std::byte>(flags);
  store_big(at + 2, header.pkey);
  store_big(at + 4, header.destination_qpn & qpn_mask);
  store_big(at + 8, (header.ack_request ? 1U << 31 : 0U) | (header.psn & psn_mask));
  at += bth_bytes;

  if (parts & xrceth) {
    store_big(at, header.xrc_srqn & qpn_mask);
    at += 4;
  }
  if (parts & deth) {
    store_big(at, header.qkey);
    store_big(at + 4, header.source_qpn & qpn_mask);
    at += 8;
  }
  if (parts & (reth | atomiceth)) {
    store_big(at, header.remote_address);
    store_big(at + 8, header.rkey);
    at += 12;
  }
  if (parts & reth) {
    store_big(at, header.dma_length);
    at += 4;
  }
  if (parts & atomiceth) {
    store_big(at, header.swap_or_add);
    store_big(at + 8, header.compare);
  }
  if (parts & aeth) {
    store_big(at, static_cast<std::uint32_t>(header.syndrome) << 24 | (header.msn & psn_mask));
    at += 4;
  }
  if (parts & atomicacketh) store_big(at, header.original);
  if (parts & immediate) std::memcpy(at, &header.immediate, sizeof header.immediate);
  if (parts & ieth) store_big(at, header.invalidate_rkey);
  if (parts & reserved16) std::memset(at, 0, 16);
  return bytes;
}

}  // namespace softverbs::wire
