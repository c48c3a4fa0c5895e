#include "scenario.hpp"

namespace cm_oracle {

namespace {

socket_address group() { return socket_address::parse("239.77.1.2"); }
socket_address group6() { return socket_address::parse("ff0e::77:1:2"); }

rdma_cm_id* bound(scene& where, side& on, rdma_port_space space = RDMA_PS_UDP) {
  auto* const id = on.create("id", space);
  on.bind(id, where.own());
  return id;
}

void multicast_join(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  only.create_qp(id);
  int context = 0;
  only.join(id, group(), &context);
  only.next();
  only.look_at(id);
  only.query_qp(id);
  only.leave(id, group());
  only.leave(id, group());
  only.join(id, group());
  only.next();
  only.expect_silence();
}

void multicast_join_without_qp(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  only.join(id, group());
  only.next();
  only.leave(id, group());
}

void multicast_join_after_resolving_the_group(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  only.resolve_addr(id, group());
  only.next();
  only.create_qp(id);
  only.join(id, group());
  only.next();
  only.leave(id, group());
}

void multicast_join_twice(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  only.create_qp(id);
  only.join(id, group());
  only.next();
  only.join(id, group());
  only.next();
  only.leave(id, group());
  only.leave(id, group());
  only.leave(id, group());
}

void multicast_join_two_groups(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  only.create_qp(id);
  only.join(id, group());
  only.next();
  only.join(id, socket_address::parse("239.77.1.3"));
  only.next();
}

void multicast_join_ipv6(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id", RDMA_PS_UDP);
  only.bind(id, where.own6());
  only.create_qp(id);
  if (only.join(id, group6()) == 0) only.next();
  only.leave(id, group6());
}

void multicast_join_in_other_spaces(scene& where) {
  auto& only = where.add("only");
  auto* const stream = bound(where, only, RDMA_PS_TCP);
  only.join(stream, group());
  only.expect_silence();
  auto* const ipoib = bound(where, only, RDMA_PS_IPOIB);
  if (only.join(ipoib, group()) == 0) only.next();
}

void multicast_join_unbound(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id", RDMA_PS_UDP);
  only.join(id, group());
  only.expect_silence();
}

void multicast_join_wildcard(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id", RDMA_PS_UDP);
  only.bind(id, socket_address::parse("0.0.0.0"));
  only.join(id, group());
  only.expect_silence();
}

void multicast_join_other_addresses(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  only.create_qp(id);
  if (only.join(id, where.own()) == 0) only.next();
  if (only.join(id, socket_address::parse("0.0.0.0")) == 0) only.next();
}

void multicast_leave_without_join(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  only.leave(id, group());
  only.join(id, group());
  only.next();
  only.leave(id, socket_address::parse("239.77.1.3"));
}

void multicast_join_flags(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  only.create_qp(id);
  auto to = group();
  const auto join = [&](const char* what, std::uint32_t mask, std::uint32_t flags) {
    rdma_cm_join_mc_attr_ex wanted{.comp_mask = mask, .join_flags = flags, .addr = to.native()};
    const int result =
        only.call("rdma_join_multicast_ex", id,
                  [&] { return rdma_join_multicast_ex(id, &wanted, nullptr); }, {{"flags", what}});
    if (result != 0) return;
    only.next();
    only.leave(id, to);
  };
  constexpr auto both = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  join("full member", both, RDMA_MC_JOIN_FLAG_FULLMEMBER);
  join("send only", both, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
  join("unknown flag", both, RDMA_MC_JOIN_FLAG_RESERVED);
  join("no flags", RDMA_CM_JOIN_MC_ATTR_ADDRESS, 0);
  join("no address", RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, 0);
  join("unknown attribute", both | RDMA_CM_JOIN_MC_ATTR_RESERVED, 0);
}

void multicast_destroy_while_joined(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  only.create_qp(id);
  only.join(id, group());
  only.next();
  only.destroy(id);
  auto* const pending = bound(where, only);
  only.create_qp(pending);
  only.join(pending, group());
  only.destroy(pending);
  only.expect_silence();
}

constexpr scenario scenarios[] = {
    {"multicast_join", multicast_join},
    {"multicast_join_without_qp", multicast_join_without_qp},
    {"multicast_join_after_resolving_the_group", multicast_join_after_resolving_the_group},
    {"multicast_join_twice", multicast_join_twice},
    {"multicast_join_two_groups", multicast_join_two_groups},
    {"multicast_join_ipv6", multicast_join_ipv6},
    {"multicast_join_in_other_spaces", multicast_join_in_other_spaces},
    {"multicast_join_unbound", multicast_join_unbound},
    {"multicast_join_wildcard", multicast_join_wildcard},
    {"multicast_join_other_addresses", multicast_join_other_addresses},
    {"multicast_leave_without_join", multicast_leave_without_join},
    {"multicast_join_flags", multicast_join_flags},
    {"multicast_destroy_while_joined", multicast_destroy_while_joined},
};

}  // namespace

std::span<const scenario> multicast() { return scenarios; }

}  // namespace cm_oracle
