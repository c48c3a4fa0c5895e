// Addresses, options, events and groups of an identifier; what it says to its peer is in
// connection.cpp.
#include <cm/identifier.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <base/log.hpp>
#include <engine/station.hpp>
#include <net/credentials.hpp>
#include <net/netdev.hpp>
#include <netinet/in.h>
#include <verbs/soft_verbs.hpp>

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

bool is_ip(const sockaddr* address) {
  if (address == nullptr) return false;
  return address->sa_family == AF_INET || address->sa_family == AF_INET6;
}

ibv_gid gid_of(const net::address& address) {
  ibv_gid gid{};
  std::memcpy(gid.raw, address.raw.data(), sizeof gid.raw);
  return gid;
}

constexpr std::uint8_t hop_limit = 64;

/// Only to be told to the user: nothing is reserved by it.
std::uint16_t some_port() {
  static std::atomic<std::uint16_t> next = 0;
  return static_cast<std::uint16_t>(32768 + next++ % 28000);
}

}  // namespace

identifier::identifier(agent& owner, event_channel& events, void* user_context,
                       rdma_port_space space, ibv_qp_type type)
    : rdma_cm_id{}, agent_(owner), events_(&events) {
  channel = &events;
  context = user_context;
  ps = space;
  qp_type = type;
  agent_.add(*this);
}

identifier::~identifier() {
  retire();
  agent_.remove(*this);
}

void identifier::retire() noexcept {
  if (retired_) return;
  retired_ = true;
  try {
    say_goodbye();
  } catch (...) {
    log(log_level::error, "there is no memory to tell a peer that its connection has ended");
  }
  agent_.forget(*this);
  agent_.revoke(number_);
  if (number_ != 0) agent_.leave(number_);
  if (request_) agent_.forget_request(*request_);
  if (reservation_ != nullptr) agent_.stop_listening(*reservation_);
}

void identifier::say_goodbye() {
  if (phase_ == phase::requested || phase_ == phase::replied) {
    static_cast<void>(reject({}, wire::reject_reason::consumer));
  } else if (phase_ == phase::established) {
    if (!is_datagram()) static_cast<void>(send(message_of(wire::cm_kind::disconnect_request)));
  } else if (phase_ == phase::disconnected) {
    static_cast<void>(send(message_of(wire::cm_kind::disconnect_reply)));
  } else if (phase_ == phase::connecting && !is_datagram()) {
    // The peer's identifier is not known yet: it recognises the request.
    auto message = message_of(wire::cm_kind::rejection);
    message.reason = static_cast<std::uint16_t>(wire::reject_reason::timeout);
    message.service_id = service_;
    wire::put_guid(message, agent_.ca_guid());
    static_cast<void>(send(message));
  } else if (phase_ == phase::accepted) {
    auto message = message_of(wire::cm_kind::rejection);
    message.answered = wire::cm_answered::reply;
    message.reason = static_cast<std::uint16_t>(wire::reject_reason::consumer);
    static_cast<void>(send(message));
  }
}

// --- events ----------------------------------------------------------------------------------

cm_event& identifier::make_event(rdma_cm_event_type type, int status) {
  auto* const news = new cm_event{};
  news->id = this;
  news->event = type;
  news->status = status;
  news->owner = this;
  return *news;
}

void identifier::raise(cm_event& news) {
  news.owner->account.raised();
  events_->events.push(&news);
}

void identifier::migrate_to(event_channel& other) {
  // What has not been taken yet moves with it.
  std::vector<cm_event*> moved;
  static_cast<void>(events_->events.remove_if([&](cm_event* news) {
    if (news->owner != this) return false;
    moved.push_back(news);
    return true;
  }));
  events_ = &other;
  channel = &other;
  for (auto* news : moved) other.events.push(news);
}

// --- addresses -------------------------------------------------------------------------------

void identifier::set_addresses() {
  auto& addresses = route.addr;
  const unsigned scope = device_ != nullptr ? device_->place->device().index : scope_;
  if (phase_ != phase::idle) {
    sockaddr_storage name{};
    static_cast<void>(own_.to_sockaddr(port_, scope, name));
    addresses.src_storage = name;
  }
  if (peer_ == net::address{}) peer_ = net::address::any(own_.is_ipv4());
  sockaddr_storage name{};
  static_cast<void>(peer_.to_sockaddr(peer_port_, scope, name));
  addresses.dst_storage = name;
  if (device_ == nullptr) return;
  addresses.addr.ibaddr.sgid = gid_of(own_);
  addresses.addr.ibaddr.dgid = gid_of(peer_);
}

int identifier::use_address(const net::address& own) {
  auto* const found = device_with(own);
  if (found == nullptr) return net::is_local(own) ? ENODEV : EADDRNOTAVAIL;
  device_ = found;
  verbs = found->verbs;
  port_num = 1;
  if (pd == nullptr) pd = found->pd;
  own_ = own;
  mtu_ = found->mtu();
  return 0;
}

int identifier::reserve_port(bool to_listen) {
  // As the kernel's rdma_cm: these, whatever net.ipv4.ip_unprivileged_port_start says.
  constexpr std::uint16_t first_unreserved_port = 1024;
  if (port_ != 0 && port_ < first_unreserved_port && !net::may_bind_reserved_ports()) return EACCES;
  const port_reservation::wish wanted{.space = ps,
                                      .own = own_,
                                      .port = port_,
                                      .one_family_only = one_family_only_,
                                      .shareable = reuse_address_};
  reservation_ = port_reservation::take(wanted);
  if (reservation_ == nullptr) {
    // Who shares a port has to have it alone when it listens.
    const int failure = errno;
    return !to_listen && reuse_address_ && port_reservation::is_shareable(wanted) ? 0 : failure;
  }
  port_ = reservation_->port();
  return 0;
}

int identifier::bind(const sockaddr* wanted) {
  if (!is_ip(wanted) || phase_ != phase::idle || ps == RDMA_PS_IPOIB) return EINVAL;
  const auto address = net::address::from_sockaddr(wanted);
  own_ = address;
  port_ = port_of(wanted);
  scope_ = scope_of(wanted);
  // As with the kernel's, a loopback address takes no device yet: one may be bound where there is
  // none, and programs do so to see whether there is a connection manager.
  if (!address.is_any() && !address.is_loopback()) {
    if (const int failure = use_address(address)) return failure;
  }
  if (const int failure = reserve_port(false)) {
    device_ = nullptr;
    verbs = nullptr;
    pd = nullptr;
    port_num = 0;
    // The kernel's takes a loopback address for one of those that stand for all.
    return failure == EADDRINUSE && address.is_loopback() ? EADDRNOTAVAIL : failure;
  }
  phase_ = phase::bound;
  set_addresses();
  return 0;
}

int identifier::listen(int backlog) {
  if (phase_ == phase::idle) {
    sockaddr_in every{};
    every.sin_family = AF_INET;
    if (const int failure = bind(reinterpret_cast<const sockaddr*>(&every))) return failure;
  }
  if (phase_ != phase::bound) return EINVAL;
  if (reservation_ == nullptr) {
    if (const int failure = reserve_port(true)) return failure;
  }
  if (!reservation_->open_boxes()) return errno;
  constexpr int most = 1024;
  backlog_left_ = backlog <= 0 || backlog > most ? most : backlog;
  phase_ = phase::listening;
  agent_.listen(*reservation_, *this);
  auto* const only = own_.is_loopback() ? device_with(own_) : device_;
  // Requests from other hosts come through the well-known port.
  for (auto* const each : local_devices()) {
    if (own_.is_any() || each == only) each->place->open_well_known_ports();
  }
  if (const auto port = only != nullptr ? only->place->management_port() : std::uint16_t{0})
    agent_.show_life(own_, port);
  return 0;
}

int identifier::resolve_address(const sockaddr* source, const sockaddr* destination) {
  if (!is_ip(destination)) return EINVAL;
  if (phase_ == phase::idle && source != nullptr && source->sa_family != AF_UNSPEC) {
    if (const int failure = bind(source)) return failure;
  }
  if (phase_ != phase::idle && phase_ != phase::bound) return EINVAL;
  const auto before = phase_;
  peer_ = net::address::from_sockaddr(destination);
  peer_port_ = port_of(destination);
  if (scope_ == 0) scope_ = scope_of(destination);
  if (phase_ == phase::idle) {
    own_ = net::address::any(peer_.is_ipv4());
    port_ = some_port();
    phase_ = phase::bound;
  }
  if (peer_.is_any()) {  // as with sockets: this host
    peer_ = !own_.is_any() ? own_ : net::address::loopback(peer_.is_ipv4());
  }
  int failure = ps == RDMA_PS_IPOIB ? EINVAL : 0;
  if (failure == 0 && device_ == nullptr && (own_.is_any() || own_.is_ipv4() == peer_.is_ipv4())) {
    const auto from = own_.is_any() ? source_towards(peer_, scope_) : own_;
    if (!from) {
      phase_ = before;
      return errno;
    }
    failure = use_address(*from);
  } else if (failure == 0 && own_.is_ipv4() != peer_.is_ipv4()) {
    return EINVAL;
  }
  if (failure == 0) phase_ = phase::address_resolved;
  set_addresses();
  raise(failure == 0 ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR, -failure);
  return 0;
}

int identifier::resolve_route() {
  if (phase_ != phase::address_resolved) return EINVAL;
  describe_path();
  phase_ = phase::route_resolved;
  raise(RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

void identifier::describe_path() {
  path_ = {};
  path_.dgid = gid_of(peer_);
  path_.sgid = gid_of(own_);
  path_.hop_limit = hop_limit;
  path_.traffic_class = type_of_service_;
  path_.reversible = 1;
  path_.numb_path = 1;
  path_.pkey = 0xffff;
  path_.mtu_selector = 2;  // exactly
  path_.mtu = static_cast<std::uint8_t>(mtu_);
  path_.rate_selector = 2;
  path_.packet_life_time_selector = 2;
  path_.packet_life_time = static_cast<std::uint8_t>(acknowledge_timeout() - 1);
  route.path_rec = &path_;
  route.num_paths = 1;
}

ibv_ah_attr identifier::path_to(const net::address& destination) const {
  ibv_ah_attr path{};
  path.is_global = 1;
  path.port_num = 1;
  path.grh.dgid = gid_of(destination);
  path.grh.sgid_index = device_->gid_index_of(own_).value_or(0);
  path.grh.hop_limit = hop_limit;
  return path;
}

int identifier::set_option(int level, int option, std::span<const std::byte> value) {
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
        type_of_service_ = std::to_integer<std::uint8_t>(value.front());
        return 0;
      case RDMA_OPTION_ID_REUSEADDR:
        if (!is_int()) return EINVAL;
        if (phase_ != phase::idle && (phase_ != phase::bound || number == 0)) return EINVAL;
        reuse_address_ = number != 0;
        return 0;
      case RDMA_OPTION_ID_AFONLY:
        if (!is_int()) return EINVAL;
        if (phase_ != phase::idle && phase_ != phase::bound) return EINVAL;
        one_family_only_ = number != 0;
        return 0;
      case RDMA_OPTION_ID_ACK_TIMEOUT:
        if (value.size() != 1) return EINVAL;
        if (is_datagram()) return EINVAL;
        acknowledge_timeout_ = std::to_integer<std::uint8_t>(value.front()) & 0x1f;
        return 0;
      default:
        return ENOSYS;
    }
  }
  // The paths of InfiniBand are none of ours.
  return level == RDMA_OPTION_IB ? EINVAL : ENOSYS;
}

// --- groups ----------------------------------------------------------------------------------

int identifier::join(const sockaddr* group_address, void* group_context) {
  if (!is_ip(group_address) || device_ == nullptr || !is_datagram()) return EINVAL;
  const auto address = net::address::from_sockaddr(group_address);
  if (address.is_any()) return EINVAL;
  if (!device_->gid_index_of(own_) || address.is_ipv4() != own_.is_ipv4()) return EINVAL;
  group joined{.address = address};
  int failure = 0;
  if (qp != nullptr && address.is_multicast()) {
    const auto gid = gid_of(address);
    failure = verbs::attach_mcast(qp, &gid, 0);
    joined.attached = failure == 0;
  } else if (!address.is_multicast()) {
    failure = EPERM;
  }
  auto& news = make_event(
      failure == 0 ? RDMA_CM_EVENT_MULTICAST_JOIN : RDMA_CM_EVENT_MULTICAST_ERROR, -failure);
  auto& told = news.param.ud;
  told.private_data = group_context;
  told.qp_num = wire::multicast_qpn;
  told.qkey = RDMA_UDP_QKEY;
  told.ah_attr = path_to(address);
  if (failure == 0) groups_.push_back(joined);
  raise(news);
  return 0;
}

int identifier::leave(const sockaddr* group_address) {
  if (!is_ip(group_address)) return EINVAL;
  const auto address = net::address::from_sockaddr(group_address);
  const auto found = std::ranges::find(groups_, address, &group::address);
  if (found == groups_.end()) return EADDRNOTAVAIL;
  const bool last = std::ranges::count(groups_, address, &group::address) == 1;
  if (last && found->attached && qp != nullptr) {
    const auto gid = gid_of(address);
    static_cast<void>(verbs::detach_mcast(qp, &gid, 0));
  }
  groups_.erase(found);
  return 0;
}

}  // namespace softverbs::cm
