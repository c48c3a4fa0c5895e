#include <cm/addressing.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <engine/netdev_port.hpp>
#include <net/credentials.hpp>
#include <net/netdev.hpp>
#include <netinet/in.h>

namespace softverbs::cm {
namespace {

std::uint16_t port_of(const sockaddr* address) {
  const auto* const ipv4 = reinterpret_cast<const sockaddr_in*>(address);
  const auto* const ipv6 = reinterpret_cast<const sockaddr_in6*>(address);
  return ntohs(address->sa_family == AF_INET ? ipv4->sin_port : ipv6->sin6_port);
}

unsigned scope_of(const sockaddr* address) {
  return address->sa_family == AF_INET6
             ? reinterpret_cast<const sockaddr_in6*>(address)->sin6_scope_id
             : 0;
}

constexpr std::uint8_t hop_limit = 64;
// What the kernel's rdma_cm takes for RoCE.
constexpr std::uint8_t packet_life_time = 18;

/// Only shown to the user: nothing is reserved by it.
std::uint16_t some_port() {
  static std::atomic<std::uint16_t> next = 0;
  return static_cast<std::uint16_t>(32768 + next++ % 28000);
}

}  // namespace

bool is_ip(const sockaddr* address) {
  if (address == nullptr) return false;
  return address->sa_family == AF_INET || address->sa_family == AF_INET6;
}

ibv_gid gid_of(const net::address& address) {
  ibv_gid gid{};
  std::memcpy(gid.raw, address.raw.data(), sizeof gid.raw);
  return gid;
}

// --- what users see --------------------------------------------------------------------------

void addressing::publish_addresses() {
  auto& addresses = id_.route.addr;
  const unsigned scope = device_ != nullptr ? device_->place->device().index : scope_;
  if (state_ != state::idle) {
    sockaddr_storage name{};
    static_cast<void>(ends_.own.to_sockaddr(ends_.own_port, scope, name));
    addresses.src_storage = name;
  }
  if (ends_.peer == net::address{}) ends_.peer = net::address::any(ends_.own.is_ipv4());
  sockaddr_storage name{};
  static_cast<void>(ends_.peer.to_sockaddr(ends_.peer_port, scope, name));
  addresses.dst_storage = name;
  if (device_ == nullptr) return;
  addresses.addr.ibaddr.sgid = gid_of(ends_.own);
  addresses.addr.ibaddr.dgid = gid_of(ends_.peer);
}

void addressing::publish_path() {
  path_ = {};
  path_.dgid = gid_of(ends_.peer);
  path_.sgid = gid_of(ends_.own);
  path_.hop_limit = hop_limit;
  path_.traffic_class = options_.type_of_service;
  path_.reversible = 1;
  path_.numb_path = 1;
  path_.pkey = 0xffff;
  path_.mtu_selector = 2;  // exactly
  path_.mtu = static_cast<std::uint8_t>(mtu_);
  path_.rate_selector = 2;
  path_.packet_life_time_selector = 2;
  path_.packet_life_time = static_cast<std::uint8_t>(ack_timeout() - 1);
  id_.route.path_rec = &path_;
  id_.route.num_paths = 1;
}

std::uint8_t addressing::ack_timeout() const {
  return options_.ack_timeout.value_or(packet_life_time + 1);
}

ibv_ah_attr addressing::path_to(const net::address& destination) const {
  ibv_ah_attr path{};
  path.is_global = 1;
  path.port_num = 1;
  path.grh.dgid = gid_of(destination);
  path.grh.sgid_index = device_->gid_index_of(ends_.own).value_or(0);
  path.grh.hop_limit = hop_limit;
  return path;
}

// --- devices and ports -----------------------------------------------------------------------

int addressing::use_address(const net::address& own) {
  auto* const found = device_with(own);
  if (found == nullptr) return net::is_local(own) ? ENODEV : EADDRNOTAVAIL;
  device_ = found;
  id_.verbs = found->verbs;
  id_.port_num = 1;
  if (id_.pd == nullptr) id_.pd = found->pd;
  ends_.own = own;
  mtu_ = found->mtu();
  return 0;
}

void addressing::forget_device() {
  device_ = nullptr;
  id_.verbs = nullptr;
  id_.pd = nullptr;
  id_.port_num = 0;
}

int addressing::reserve_port(bool to_listen) {
  // As the kernel's rdma_cm: these, whatever net.ipv4.ip_unprivileged_port_start says.
  constexpr std::uint16_t first_unreserved_port = 1024;
  if (ends_.own_port != 0 && ends_.own_port < first_unreserved_port &&
      !net::may_bind_reserved_ports())
    return EACCES;
  const port_reservation::port_spec wanted{.space = id_.ps,
                                           .own = ends_.own,
                                           .port = ends_.own_port,
                                           .one_family_only = options_.one_family_only,
                                           .shareable = options_.reuse_address};
  reservation_ = port_reservation::take(wanted);
  if (reservation_ == nullptr) {
    // A shared port has to be the id's alone when it listens.
    const int failure = errno;
    return !to_listen && options_.reuse_address && port_reservation::is_shareable(wanted) ? 0
                                                                                          : failure;
  }
  ends_.own_port = reservation_->port();
  return 0;
}

// --- for users -------------------------------------------------------------------------------

int addressing::bind(const sockaddr* wanted) {
  if (!is_ip(wanted) || state_ != state::idle || id_.ps == RDMA_PS_IPOIB) return EINVAL;
  const auto address = net::address::from_sockaddr(wanted);
  ends_.own = address;
  ends_.own_port = port_of(wanted);
  scope_ = scope_of(wanted);
  // As with the kernel's, a loopback address takes no device yet: it can be bound where there is
  // none, and programs do so to find out whether there is a connection manager.
  if (!address.is_any() && !address.is_loopback()) {
    if (const int failure = use_address(address)) return failure;
  }
  if (const int failure = reserve_port(false)) {
    forget_device();
    // The kernel's takes a loopback address for one of those that stand for all.
    return failure == EADDRINUSE && address.is_loopback() ? EADDRNOTAVAIL : failure;
  }
  state_ = state::bound;
  publish_addresses();
  return 0;
}

int addressing::start_listening() {
  if (state_ == state::idle) {
    sockaddr_in every{};
    every.sin_family = AF_INET;
    if (const int failure = bind(reinterpret_cast<const sockaddr*>(&every))) return failure;
  }
  if (state_ != state::bound) return EINVAL;
  if (reservation_ == nullptr) {
    if (const int failure = reserve_port(true)) return failure;
  }
  if (!reservation_->open_sockets()) return errno;
  state_ = state::listening;
  return 0;
}

addressing::resolution addressing::resolve(const sockaddr* source, const sockaddr* destination) {
  if (!is_ip(destination)) return {.error = EINVAL};
  if (state_ == state::idle && source != nullptr && source->sa_family != AF_UNSPEC) {
    if (const int failure = bind(source)) return {.error = failure};
  }
  if (state_ != state::idle && state_ != state::bound) return {.error = EINVAL};
  const auto before = state_;
  auto& [own, peer, own_port, peer_port] = ends_;
  peer = net::address::from_sockaddr(destination);
  peer_port = port_of(destination);
  if (scope_ == 0) scope_ = scope_of(destination);
  if (state_ == state::idle) {
    own = net::address::any(peer.is_ipv4());
    own_port = some_port();
    state_ = state::bound;
  }
  if (peer.is_any()) {  // as with sockets: this host
    peer = !own.is_any() ? own : net::address::loopback(peer.is_ipv4());
  }
  int failure = id_.ps == RDMA_PS_IPOIB ? EINVAL : 0;
  if (failure == 0 && device_ == nullptr && (own.is_any() || own.is_ipv4() == peer.is_ipv4())) {
    const auto from = own.is_any() ? source_towards(peer, scope_) : own;
    if (!from) {
      state_ = before;
      return {.error = errno};
    }
    failure = use_address(*from);
  } else if (failure == 0 && own.is_ipv4() != peer.is_ipv4()) {
    return {.error = EINVAL};
  }
  if (failure == 0) state_ = state::address_resolved;
  publish_addresses();
  return {.failure = failure};
}

int addressing::resolve_route() {
  if (state_ != state::address_resolved) return EINVAL;
  publish_path();
  state_ = state::route_resolved;
  return 0;
}

int addressing::set_option(int level, int option, std::span<const std::byte> value) {
  int number = 0;
  const auto is_int = [&] {
    if (value.size() != sizeof number) return false;
    std::memcpy(&number, value.data(), sizeof number);
    return true;
  };
  if (level == RDMA_OPTION_ID) {
    switch (option) {
      case RDMA_OPTION_ID_TOS:
        if (value.size() != 1) return EINVAL;
        options_.type_of_service = std::to_integer<std::uint8_t>(value.front());
        return 0;
      case RDMA_OPTION_ID_REUSEADDR:
        if (!is_int()) return EINVAL;
        if (state_ != state::idle && (state_ != state::bound || number == 0)) return EINVAL;
        options_.reuse_address = number != 0;
        return 0;
      case RDMA_OPTION_ID_AFONLY:
        if (!is_int()) return EINVAL;
        if (state_ != state::idle && state_ != state::bound) return EINVAL;
        options_.one_family_only = number != 0;
        return 0;
      case RDMA_OPTION_ID_ACK_TIMEOUT:
        if (value.size() != 1 || id_.qp_type == IBV_QPT_UD) return EINVAL;
        options_.ack_timeout = std::to_integer<std::uint8_t>(value.front()) & 0x1f;
        return 0;
      default:
        return ENOSYS;
    }
  }
  // The paths of InfiniBand have no meaning here.
  return level == RDMA_OPTION_IB ? EINVAL : ENOSYS;
}

void addressing::adopt(local_device& device, const ends& both, const wire::cm_message& req) {
  device_ = &device;
  id_.verbs = device.verbs;
  id_.port_num = 1;
  id_.pd = device.pd;
  ends_ = both;
  state_ = state::route_resolved;
  options_.type_of_service = req.traffic_class;
  options_.ack_timeout = req.ack_timeout;
  publish_addresses();
  if (req.kind != wire::cm_kind::req) return;
  mtu_ = std::min(static_cast<ibv_mtu>(req.path_mtu), device.mtu());
  publish_path();
}

}  // namespace softverbs::cm
