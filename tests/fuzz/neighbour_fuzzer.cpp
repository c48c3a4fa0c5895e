// libFuzzer target: input from neighbours through the sockets that processes of a host share:
// handed-over packets, orphan disconnects and anything else over a liveness connection, and lines
// of the kernel's socket table, whose format may change.
//
// Input: which of them, then the bytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <cm/liveness.hpp>
#include <cm/liveness_monitor.hpp>
#include <cm/message_source.hpp>
#include <cm/orphan_disconnect.hpp>
#include <engine/handoff_socket.hpp>
#include <engine/host_protocol.hpp>
#include <net/address.hpp>
#include <net/socket_owner.hpp>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "input.hpp"

namespace {

using namespace softverbs;
using fuzz::require;

constexpr std::uint16_t port = 5;

/// Named after the process, so that many fuzzers can run at once.
net::address own_name() {
  auto own = net::address::loopback(false);
  const auto pid = ::getpid();
  std::memcpy(own.raw.data(), &pid, sizeof pid);
  return own;
}

void try_handoff(std::span<const std::byte> bytes) {
  static const auto box = engine::handoff_socket::open(own_name(), port);
  static const int writer = engine::handoff_socket::connect_to(own_name(), port).release();
  static std::vector<std::byte> memory(engine::handoff_socket::burst_bytes);
  require(box != nullptr && writer >= 0);
  require(::send(writer, bytes.data(), bytes.size(), 0) >= 0);
  engine::handoff_socket::burst burst;
  if (!box->take(memory, burst, engine::handoff_socket::from::everybody)) return;
  require(burst.segment_bytes > 0);
  require(burst.packets.size() + sizeof(engine::host_protocol::handoff_header) == bytes.size());
  require(burst.sender.user == ::geteuid());
}

void try_orphan_disconnect(std::span<const std::byte> bytes) {
  const auto update = cm::decode_orphan_disconnect(bytes);
  if (!update || update->is_valid == 0) return;
  const auto message = wire::decode_cm(update->disconnect.dreq);
  require(message && message->kind == wire::cm_kind::dreq);
  require(message->local_id == update->comm_id && !update->disconnect.peer.is_loopback());
}

void try_liveness(fuzz::input& from) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  {
    cm::liveness_monitor monitor(epoll);
    monitor.announce(own_name(), port);
    std::array<int, 2> watchers{};
    for (int& each : watchers) each = cm::connect_to_watch(own_name(), port).release();
    const auto handle_all = [&] {
      std::array<epoll_event, 8> ready{};
      const int count = ::epoll_wait(epoll, ready.data(), ready.size(), 0);
      for (int i = 0; i < count; ++i) {
        const auto report = monitor.handle(ready[static_cast<std::size_t>(i)].data.fd);
        require(report.known && report.peers_gone.empty());
        for (const auto& each : report.orphan_disconnects) require(!each.peer.is_loopback());
      }
    };
    handle_all();
    while (!from.is_empty()) {
      const int who = watchers[from.below(watchers.size())];
      require(who >= 0);
      const auto bytes = from.bytes(from.below(255));
      ::send(who, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      handle_all();
    }
    for (const int each : watchers) ::close(each);
    handle_all();
  }
  ::close(epoll);
}

void try_message(fuzz::input& from) {
  engine::management_datagram datagram;
  datagram.arrived_by = static_cast<engine::management_datagram::arrival>(from.below(3));
  datagram.source_port = static_cast<std::uint16_t>(from.number(2));
  const bool is_local = from.chance();
  const auto message = wire::decode_cm(std::as_bytes(from.bytes(wire::mad{}.size())));
  if (!message) return;
  datagram.message = *message;
  const bool speaks_for_itself = message->local_id >> 16U == datagram.source_port;
  if (!cm::is_believable(datagram, is_local) || !is_local) return;
  require(speaks_for_itself || message->kind == wire::cm_kind::sidr_rep ||
          (message->kind == wire::cm_kind::rej && message->local_id == 0));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input from({data, size});
  const auto what = from.below(5);
  if (what == 3) {
    try_liveness(from);
    return 0;
  }
  if (what == 4) {
    try_message(from);
    return 0;
  }
  const auto rest = from.bytes(size);
  if (what == 0) try_handoff(std::as_bytes(rest));
  if (what == 1) try_orphan_disconnect(std::as_bytes(rest));
  if (what == 2) {
    std::istringstream table(std::string(rest.begin(), rest.end()));
    static_cast<void>(net::owns_udp_socket(table, 0, net::address::loopback(true), 0x1234));
  }
  return 0;
}
