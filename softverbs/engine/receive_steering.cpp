#include <engine/receive_steering.hpp>

#include <sys/socket.h>

namespace softverbs::engine::receive_steering {
namespace {

// Of the upper 16 bits of the destination QP in the base transport header (9.2.1).
constexpr std::uint32_t port_offset = 5;

constexpr sock_filter statement(unsigned code, std::uint32_t value = 0) {
  return {.code = static_cast<std::uint16_t>(code), .jt = 0, .jf = 0, .k = value};
}

constexpr sock_filter with_constant(unsigned code, std::uint32_t value) {
  return statement(code | BPF_K, value);
}

constexpr sock_filter jump(unsigned test, std::uint32_t value, std::uint8_t if_true,
                           std::uint8_t if_false) {
  auto made = with_constant(BPF_JMP | test, value);
  made.jt = if_true;
  made.jf = if_false;
  return made;
}

}  // namespace

std::array<sock_filter, 7> program() {
  return {statement(BPF_LD | BPF_H | BPF_ABS, port_offset),  // too short: ends with 0
          jump(BPF_JGE, lowest_port, 0, 4),
          jump(BPF_JEQ, 0xffff, 3, 0),
          with_constant(BPF_ALU | BPF_MOD, host_protocol::port_slots - 1),
          with_constant(BPF_ALU | BPF_ADD, 1),
          statement(BPF_RET | BPF_A),
          with_constant(BPF_RET, common_slot)};
}

bool attach(int fd) {
  auto statements = program();
  const sock_fprog whole{.len = statements.size(), .filter = statements.data()};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &whole, sizeof whole) == 0;
}

}  // namespace softverbs::engine::receive_steering
