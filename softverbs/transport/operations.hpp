// The operations of packets (table 38) by their place in a message.
#pragma once

#include <cstddef>
#include <cstdint>

#include <transport/send_work.hpp>
#include <wire/packet.hpp>

namespace softverbs::transport {

using wire::operation;

[[nodiscard]] constexpr bool is_first(operation op) noexcept {
  return op == operation::send_first || op == operation::write_first;
}
[[nodiscard]] constexpr bool is_only(operation op) noexcept {
  return op == operation::send_only || op == operation::send_only_immediate ||
         op == operation::send_only_invalidate || op == operation::write_only ||
         op == operation::write_only_immediate;
}
[[nodiscard]] constexpr bool is_middle(operation op) noexcept {
  return op == operation::send_middle || op == operation::write_middle;
}
[[nodiscard]] constexpr bool is_send(operation op) noexcept {
  return op <= operation::send_only_immediate || op == operation::send_last_invalidate ||
         op == operation::send_only_invalidate;
}
[[nodiscard]] constexpr bool is_write(operation op) noexcept {
  return op >= operation::write_first && op <= operation::write_only_immediate;
}
[[nodiscard]] constexpr bool is_atomic(operation op) noexcept {
  return op == operation::compare_swap || op == operation::fetch_add;
}
[[nodiscard]] constexpr bool has_immediate(operation op) noexcept {
  return op == operation::send_last_immediate || op == operation::send_only_immediate ||
         op == operation::write_last_immediate || op == operation::write_only_immediate;
}
[[nodiscard]] constexpr bool has_invalidate(operation op) noexcept {
  return op == operation::send_last_invalidate || op == operation::send_only_invalidate;
}
[[nodiscard]] constexpr bool starts_message(operation op) noexcept {
  return is_first(op) || is_only(op);
}
[[nodiscard]] constexpr bool ends_message(operation op) noexcept {
  return !is_first(op) && !is_middle(op);
}

/// Of a packet of a send or write request.
[[nodiscard]] constexpr operation message_operation(opcode op, bool first, bool last) noexcept {
  struct by_place {
    operation first, middle, last, only;
  };
  constexpr auto pick = [](const by_place& of, bool is_first, bool is_last) {
    if (is_first) return is_last ? of.only : of.first;
    return is_last ? of.last : of.middle;
  };
  using enum operation;
  switch (op) {
    case opcode::send_immediate:
      return pick({send_first, send_middle, send_last_immediate, send_only_immediate}, first, last);
    case opcode::send_invalidate:
      return pick({send_first, send_middle, send_last_invalidate, send_only_invalidate}, first,
                  last);
    case opcode::write:
      return pick({write_first, write_middle, write_last, write_only}, first, last);
    case opcode::write_immediate:
      return pick({write_first, write_middle, write_last_immediate, write_only_immediate}, first,
                  last);
    default:
      return pick({send_first, send_middle, send_last, send_only}, first, last);
  }
}

[[nodiscard]] constexpr operation response_operation(bool first, bool last) noexcept {
  if (first) return last ? operation::read_response_only : operation::read_response_first;
  return last ? operation::read_response_last : operation::read_response_middle;
}

/// A message without payload is a packet, too.
[[nodiscard]] constexpr std::uint64_t packets_of(std::uint64_t bytes, std::size_t mtu) noexcept {
  return bytes == 0 ? 1 : (bytes + mtu - 1) / mtu;
}

}  // namespace softverbs::transport
