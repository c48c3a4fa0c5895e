#include "conversation.hpp"
#include "scenario.hpp"

namespace cm_oracle {

namespace {

using namespace std::chrono_literals;

void resolve(scene& where, const socket_address& to) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  if (only.resolve_addr(id, to, 2s) != 0) {
    only.look_at(id);
    return;
  }
  if (only.next().type != RDMA_CM_EVENT_ADDR_RESOLVED) {
    only.look_at(id);
    return;
  }
  only.look_at(id);
  if (only.resolve_route(id, 2s) == 0) only.next();
  only.look_at(id);
}

void resolve_own(scene& where) { resolve(where, where.own(18515)); }
void resolve_own_ipv6(scene& where) { resolve(where, where.own6(18515)); }
void resolve_own_port_0(scene& where) { resolve(where, where.own()); }
void resolve_nobodys(scene& where) { resolve(where, where.nobodys(18515)); }
void resolve_without_route(scene& where) { resolve(where, where.routeless(18515)); }
void resolve_loopback(scene& where) { resolve(where, socket_address::parse("127.0.0.1", 18515)); }
void resolve_wildcard(scene& where) { resolve(where, socket_address::parse("0.0.0.0", 18515)); }
void resolve_multicast(scene& where) { resolve(where, socket_address::parse("239.1.2.3", 18515)); }

/// Bound before, or by the call.
void resolve_from_loopback(scene& where) {
  const auto loopback = socket_address::parse("127.0.0.1");
  auto& only = where.add("only");
  auto* const bound = only.create("bound");
  only.bind(bound, loopback);
  only.resolve_addr(bound, loopback.with_port(18515));
  only.next();
  only.look_at(bound);
  auto* const other = only.create("other");
  only.resolve_addr(other, loopback, loopback.with_port(18515));
  only.next();
  only.look_at(other);
}

void resolve_from_loopback_to_own(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, socket_address::parse("127.0.0.1"));
  only.resolve_addr(id, where.own(18515));
  only.next();
  only.look_at(id);
}

void resolve_with_source(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.resolve_addr(id, where.own(), where.own(18515));
  only.next();
  only.look_at(id);
}

void resolve_with_source_and_port(scene& where) {
  auto& only = where.add("only");
  auto* const other = only.create("other");
  only.bind(other, where.own());
  const auto port = ntohs(rdma_get_src_port(other));
  only.destroy(other);
  auto* const id = only.create("id");
  only.resolve_addr(id, where.own(port), where.own(18515));
  only.next();
  only.look_at(id);
  auto* const second = only.create("second");
  only.resolve_addr(second, where.own(port), where.own(18515));
  only.expect_silence();
}

void resolve_with_wildcard_source(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.resolve_addr(id, socket_address::parse("0.0.0.0"), where.own(18515));
  only.next();
  only.look_at(id);
}

void resolve_with_foreign_source(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.resolve_addr(id, where.nobodys(0), where.own(18515));
  only.expect_silence();
  only.look_at(id);
}

void resolve_mixed_families(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.resolve_addr(id, where.own6(), where.own(18515));
  only.expect_silence();
}

void resolve_bound(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, where.own());
  only.resolve_addr(id, where.own(18515));
  only.next();
  only.look_at(id);
}

void resolve_bound_with_source(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, where.own());
  only.resolve_addr(id, where.own(), where.own(18515));
  only.expect_silence();
}

void resolve_addr_twice(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.resolve_addr(id, where.own(18515));
  only.next();
  only.resolve_addr(id, where.own(18516));
  only.expect_silence();
}

void resolve_addr_again_after_error(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.resolve_addr(id, where.routeless(18515), 1s);
  only.expect_silence();
  only.resolve_addr(id, where.own(18515));
  only.next();
}

void resolve_route_first(scene& where) {
  // Of an identifier without a device librdmacm does not survive it.
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, where.own());
  only.resolve_route(id);
  only.expect_silence();
}

void resolve_route_twice(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.resolve_addr(id, where.own(18515));
  only.next();
  only.resolve_route(id);
  only.next();
  only.resolve_route(id);
  only.expect_silence();
}

void resolve_with_odd_timeouts(scene& where) {
  auto& only = where.add("only");
  auto* const zero = only.create("zero");
  only.resolve_addr(zero, where.own(18515), 0ms);
  only.next();
  only.resolve_route(zero, 0ms);
  only.expect_silence();
  auto* const negative = only.create("negative");
  only.resolve_addr(negative, where.own(18515), -1ms);
  only.next();
  only.resolve_route(negative, -1ms);
  only.expect_silence();
}

void resolve_destroyed_before_the_event(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.resolve_addr(id, where.own(18515));
  only.destroy(id);
  only.expect_silence();
}

constexpr scenario scenarios[] = {
    {"resolve_own", resolve_own},
    {"resolve_own_ipv6", resolve_own_ipv6},
    {"resolve_own_port_0", resolve_own_port_0},
    {"resolve_nobodys", resolve_nobodys},
    {"resolve_without_route", resolve_without_route},
    {"resolve_loopback", resolve_loopback},
    {"resolve_from_loopback", resolve_from_loopback},
    {"resolve_from_loopback_to_own", resolve_from_loopback_to_own},
    {"resolve_wildcard", resolve_wildcard},
    {"resolve_multicast", resolve_multicast},
    {"resolve_with_source", resolve_with_source},
    {"resolve_with_source_and_port", resolve_with_source_and_port},
    {"resolve_with_wildcard_source", resolve_with_wildcard_source},
    {"resolve_with_foreign_source", resolve_with_foreign_source},
    {"resolve_mixed_families", resolve_mixed_families},
    {"resolve_bound", resolve_bound},
    {"resolve_bound_with_source", resolve_bound_with_source},
    {"resolve_addr_twice", resolve_addr_twice},
    {"resolve_addr_again_after_error", resolve_addr_again_after_error},
    {"resolve_route_first", resolve_route_first},
    {"resolve_route_twice", resolve_route_twice},
    {"resolve_with_odd_timeouts", resolve_with_odd_timeouts},
    {"resolve_destroyed_before_the_event", resolve_destroyed_before_the_event},
};

}  // namespace

std::span<const scenario> resolving() { return scenarios; }

}  // namespace cm_oracle
