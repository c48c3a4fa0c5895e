// One send request: what the user wants, and how far the transport has come with it.
#pragma once

#include <cstdint>

#include <net/address.hpp>
#include <transport/service.hpp>
#include <transport/status.hpp>

namespace softverbs::transport {

struct memory_region;
struct memory_window;

/// A piece of registered memory, as a request names it.
struct element {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t key = 0;
};

/// The two ends of a path, as an address vector names them.
struct path_ends {
  net::address source{};
  net::address destination{};
  std::uint8_t traffic_class = 0;
};

enum class opcode : std::uint8_t {
  send,
  send_immediate,
  send_invalidate,
  write,
  write_immediate,
  read,
  compare_swap,
  fetch_add,
  bind_window,
  local_invalidate
};

struct send_work {
  std::uint64_t id = 0;  ///< the user's: wr_id
  opcode op = opcode::send;
  bool signaled = false;
  bool fenced = false;
  bool solicited = false;
  bool inline_data = false;
  std::uint32_t elements = 0;
  std::uint64_t bytes = 0;

  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t immediate = 0;  ///< as the user gave it; also the rkey to invalidate
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;

  // UD and XRC
  path_ends to{};
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  std::uint32_t xrc_srqn = 0;

  // bind_window; either may have been destroyed when its turn comes
  memory_window* window = nullptr;
  memory_region* region = nullptr;
  std::uint32_t region_key = 0;  ///< at the time of posting
  std::uint64_t bind_address = 0;
  std::uint64_t bind_bytes = 0;
  unsigned bind_access = 0;

  // What the transport has done with it. PSNs are counted without wrapping around.
  bool started = false;
  bool done = false;  ///< a local operation that was carried out
  status failed = status::success;
  std::uint64_t first_psn = 0;
  std::uint64_t last_psn = 0;

  [[nodiscard]] bool is_read() const noexcept { return op == opcode::read; }
  [[nodiscard]] bool is_atomic() const noexcept {
    return op == opcode::compare_swap || op == opcode::fetch_add;
  }
  /// Carried out on this side, without a packet.
  [[nodiscard]] bool is_local() const noexcept {
    return op == opcode::local_invalidate || op == opcode::bind_window;
  }
};

/// No message is longer (9.7.4.1).
inline constexpr std::uint64_t longest_message = std::uint64_t{1} << 31;

/// Whether the service has the operation (table 37).
[[nodiscard]] constexpr bool has_operation(service kind, opcode op) noexcept {
  switch (op) {
    case opcode::send:
    case opcode::send_immediate:
      return kind != service::xrc_receive;
    case opcode::write:
    case opcode::write_immediate:
    case opcode::bind_window:
      return kind != service::ud && kind != service::xrc_receive;
    case opcode::send_invalidate:
    case opcode::read:
    case opcode::compare_swap:
    case opcode::fetch_add:
    case opcode::local_invalidate:
      return kind == service::rc || kind == service::xrc_send;
  }
  return false;
}

/// Whether a queue pair of that service can carry out the request: the one place that decides it,
/// whichever front end built it. How many elements and inline bytes fit is the send queue's.
[[nodiscard]] constexpr bool is_valid(service kind, const send_work& work) noexcept {
  if (!has_operation(kind, work.op)) return false;
  if (work.is_local()) return work.op != opcode::bind_window || work.window != nullptr;
  if (kind == service::ud && work.to.destination == net::address{}) return false;
  if (work.inline_data && (work.is_read() || work.is_atomic())) return false;
  if (work.is_atomic()) return work.bytes >= sizeof(std::uint64_t);
  return work.bytes <= longest_message;
}

}  // namespace softverbs::transport
