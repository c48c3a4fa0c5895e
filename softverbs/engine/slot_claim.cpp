#include <engine/slot_claim.hpp>

#include <engine/host_protocol.hpp>
#include <engine/receive_steering.hpp>
#include <sys/socket.h>

namespace softverbs::engine {
namespace {

constexpr int distance = host_protocol::port_slots - 1;  // of ports with the same slot
// Those that the kernel gives unless it is told otherwise.
constexpr int first_of_all = 32'768;
constexpr int last_of_all = 60'999;

}  // namespace

bool slot_claim::covers(std::uint16_t port) {
  const auto slot = receive_steering::slot_of(port);
  if (slot == receive_steering::common_slot) return false;
  if (held_) return slot == receive_steering::slot_of(last_port_);
  private_descriptor claim(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto name = host_protocol::slot_name(netdev_, slot);
  if (!claim || ::bind(claim.get(), name.get(), name.bytes) != 0) return false;
  held_ = std::move(claim);
  last_port_ = port;
  return true;
}

std::uint16_t slot_claim::next_port() noexcept {
  if (!held_) return 0;
  int port = last_port_ + distance;
  if (port > last_of_all) {
    const int behind = (first_of_all - last_port_ % distance) % distance;
    port = first_of_all + (behind == 0 ? 0 : distance - behind);
  }
  last_port_ = static_cast<std::uint16_t>(port);
  return last_port_;
}

}  // namespace softverbs::engine
