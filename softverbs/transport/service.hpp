// The transport services (9.6): what a queue pair promises about its messages.
#pragma once

#include <cstdint>

#include <wire/packet.hpp>

namespace softverbs::transport {

enum class service : std::uint8_t { rc, uc, ud, xrc_send, xrc_receive };

[[nodiscard]] constexpr bool is_reliable(service kind) noexcept {
  return kind != service::uc && kind != service::ud;
}

/// As the opcode of a packet tells it.
[[nodiscard]] constexpr wire::transport on_the_wire(service kind) noexcept {
  switch (kind) {
    case service::uc:
      return wire::transport::uc;
    case service::ud:
      return wire::transport::ud;
    case service::xrc_send:
    case service::xrc_receive:
      return wire::transport::xrc;
    case service::rc:
      break;
  }
  return wire::transport::rc;
}

}  // namespace softverbs::transport
