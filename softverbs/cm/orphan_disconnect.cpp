#include <cm/orphan_disconnect.hpp>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include <cm/liveness.hpp>
#include <fmt/format.h>
#include <net/credentials.hpp>
#include <net/socket_owner.hpp>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::cm {
namespace {

/// The ports of softverbs processes that announce themselves on that address.
std::vector<std::uint16_t> neighbours_on(const net::address& own) {
  const auto beginning = fmt::format("@{}", liveness_name(own, ""));
  std::vector<std::uint16_t> ports;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const auto at = line.rfind(beginning);
    if (at == std::string::npos) continue;
    std::uint16_t port = 0;
    const char* const begin = line.data() + at + beginning.size();
    const char* const end = line.data() + line.size();
    if (std::from_chars(begin, end, port).ptr == end) ports.push_back(port);
  }
  return ports;
}

std::uint16_t port_of(std::uint32_t comm_id) { return static_cast<std::uint16_t>(comm_id >> 16U); }

/// A connection to the process, if it belongs to a trusted user.
engine::private_descriptor connect_to_trusted(const net::address& own, std::uint16_t port) {
  engine::private_descriptor fd(connect_to_watch(own, port));
  if (!fd) return {};
  const auto who = net::credentials_of_peer(fd.get());
  if (!who || !net::are_trusted(*who)) return {};
  return fd;
}

}  // namespace

std::optional<orphan_disconnect_update> decode_orphan_disconnect(std::span<const std::byte> bytes) {
  orphan_disconnect_update update;
  if (bytes.size() != sizeof update) return std::nullopt;
  std::memcpy(&update, bytes.data(), sizeof update);
  if (update.is_valid == 0) return update;
  const auto& [own, peer, dreq] = update.disconnect;
  const auto message = wire::decode_cm(dreq);
  if (!message || message->kind != wire::cm_kind::dreq) return std::nullopt;
  if (message->local_id != update.comm_id || update.is_valid != 1) return std::nullopt;
  if (own.is_any() || peer.is_any() || peer.is_loopback() || peer.is_multicast())
    return std::nullopt;
  return update;
}

// --- of this process -------------------------------------------------------------------------

int registered_disconnects::find_holder() {
  if (holder_ || by_comm_id_.empty()) return -1;
  const auto& [first, disconnect] = *by_comm_id_.begin();
  const auto& own = disconnect.own;
  for (const auto port : neighbours_on(own)) {
    if (port == port_of(first) || former_.contains(port)) continue;  // this process
    holder_ = connect_to_trusted(own, port);
    if (!holder_) continue;
    holder_port_ = port;
    for (const auto& [comm_id, each] : by_comm_id_) update_holder(comm_id, &each);
    return holder_.get();
  }
  return -1;
}

void registered_disconnects::update_holder(std::uint32_t comm_id,
                                           const orphan_disconnect* disconnect) const {
  orphan_disconnect_update update{
      .comm_id = comm_id, .is_valid = disconnect != nullptr ? 1U : 0U, .disconnect = {}};
  if (disconnect != nullptr) update.disconnect = *disconnect;
  // A stopped holder reads nothing, and its buffer may be full. A DREQ that it does not learn of is
  // not sent, and the receiver of one that was withdrawn recognises it as stale.
  static_cast<void>(::send(holder_.get(), &update, sizeof update, MSG_DONTWAIT | MSG_NOSIGNAL));
}

int registered_disconnects::add(std::uint32_t comm_id, const orphan_disconnect& disconnect) {
  by_comm_id_[comm_id] = disconnect;
  if (!holder_) return find_holder();
  update_holder(comm_id, &disconnect);
  return -1;
}

void registered_disconnects::remove(std::uint32_t comm_id) {
  if (by_comm_id_.erase(comm_id) > 0 && holder_) update_holder(comm_id, nullptr);
}

int registered_disconnects::holder_has_gone() {
  holder_.reset();
  former_.insert(holder_port_);
  return find_holder();
}

// --- of neighbours ---------------------------------------------------------------------------

bool held_disconnects::receive(int fd) {
  constexpr int updates_per_turn = 64;
  std::array<std::byte, sizeof(orphan_disconnect_update)> memory{};
  for (int i = 0; i < updates_per_turn; ++i) {
    // MSG_TRUNC: the whole length, also of what does not fit.
    const auto bytes = ::recv(fd, memory.data(), memory.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (bytes <= 0) return false;
    if (static_cast<std::size_t>(bytes) > memory.size()) continue;
    if (const auto update =
            decode_orphan_disconnect(std::span(memory).first(static_cast<std::size_t>(bytes))))
      apply(by_neighbour_[fd], *update);
  }
  return true;
}

void held_disconnects::apply(neighbour& from, const orphan_disconnect_update& update) {
  if (update.is_valid == 0) {
    held_ -= from.disconnects.erase(update.comm_id);
    return;
  }
  const std::pair port(update.disconnect.own, port_of(update.comm_id));
  if (from.port != port) {
    if (!net::owns_udp_socket(from.user, port.first, port.second)) return;
    from.port = port;
  }
  if (!from.disconnects.contains(update.comm_id)) {
    if (from.disconnects.size() >= most_of_one || held_ >= most_in_all) return;
    ++held_;
  }
  from.disconnects[update.comm_id] = update.disconnect;
}

std::vector<orphan_disconnect> held_disconnects::release(int fd) {
  std::vector<orphan_disconnect> all;
  const auto found = by_neighbour_.find(fd);
  if (found == by_neighbour_.end()) return all;
  for (const auto& [comm_id, each] : found->second.disconnects) all.push_back(each);
  held_ -= all.size();
  by_neighbour_.erase(found);
  return all;
}

}  // namespace softverbs::cm
