#include "scenario.hpp"

namespace cm_oracle {

namespace {

std::uint16_t port_of(rdma_cm_id* id) { return ntohs(rdma_get_src_port(id)); }

socket_address wildcard(std::uint16_t port = 0) { return socket_address::parse("0.0.0.0", port); }
socket_address wildcard6(std::uint16_t port = 0) { return socket_address::parse("::", port); }

void bind_port_0(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.look_at(id);
  only.bind(id, where.own());
  only.look_at(id);
}

void bind_port_0_ipv6(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, where.own6());
  only.look_at(id);
}

void bind_wildcard(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, wildcard());
  only.look_at(id);
}

void bind_wildcard_ipv6(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, wildcard6());
  only.look_at(id);
}

void bind_one_id_twice(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, where.own());
  only.bind(id, where.own());
}

void bind_same_port_twice(scene& where) {
  auto& only = where.add("only");
  auto* const first = only.create("first");
  auto* const second = only.create("second");
  only.bind(first, where.own());
  only.bind(second, where.own(port_of(first)));
  only.look_at(second);
  // It is as good as new.
  only.bind(second, where.own());
}

void bind_port_of_a_destroyed_id(scene& where) {
  auto& only = where.add("only");
  auto* const first = only.create("first");
  only.bind(first, where.own());
  const auto port = port_of(first);
  only.destroy(first);
  auto* const second = only.create("second");
  only.bind(second, where.own(port));
}

void bind_same_port_in_other_space(scene& where) {
  auto& only = where.add("only");
  auto* const first = only.create("first", RDMA_PS_TCP);
  auto* const second = only.create("second", RDMA_PS_UDP);
  only.bind(first, where.own());
  only.bind(second, where.own(port_of(first)));
}

void bind_addresses_that_are_not_ours(scene& where) {
  auto& only = where.add("only");
  only.bind(only.create("nobody's"), where.nobodys(0));
  only.bind(only.create("without a route"), where.routeless(0));
}

void bind_loopback(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, socket_address::parse("127.0.0.1"));
  only.look_at(id);
  auto* const id6 = only.create("id6");
  only.bind(id6, socket_address::parse("::1"));
  only.look_at(id6);
}

void bind_loopback_datagrams(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id", RDMA_PS_UDP);
  only.bind(id, socket_address::parse("127.0.0.1"));
  only.look_at(id);
}

void bind_loopback_without_channel(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create_blocking("id");
  only.bind(id, socket_address::parse("127.0.0.1"));
  only.look_at(id);
}

void bind_other_loopback(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, socket_address::parse("127.0.0.2"));
  only.look_at(id);
}

void bind_loopback_same_port_twice(scene& where) {
  auto& only = where.add("only");
  auto* const first = only.create("first");
  auto* const second = only.create("second");
  only.bind(first, socket_address::parse("127.0.0.1"));
  only.bind(second, socket_address::parse("127.0.0.1", port_of(first)));
  only.look_at(second);
}

void bind_unknown_family(scene& where) {
  auto& only = where.add("only");
  sockaddr other{};
  other.sa_family = AF_UNIX;
  only.bind(only.create("unix"), socket_address(other));
  other.sa_family = AF_UNSPEC;
  only.bind(only.create("unspecified"), socket_address(other));
}

void bind_without_channel(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create_blocking("id");
  only.bind(id, where.own());
  only.look_at(id);
  only.write({{"id->channel", id->channel == nullptr ? "none" : "there"},
              {"id->event", id->event == nullptr ? "none" : "there"}});
}

void create_in_every_port_space(scene& where) {
  auto& only = where.add("only");
  for (const auto space : {RDMA_PS_IPOIB, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB}) {
    auto* const id = only.create(name_of(space), space);
    if (id != nullptr && only.bind(id, where.own()) == 0) only.look_at(id);
  }
  only.create("unknown", static_cast<rdma_port_space>(0x0199));
}

enum class reuse { no, second_only, both };

/// Two identifiers of the same port, bound and then listening.
void two_on_a_port(scene& where, const socket_address& first_at, const socket_address& second_at,
                   reuse how, bool listen_before = false) {
  auto& only = where.add("only");
  auto* const first = only.create("first");
  auto* const second = only.create("second");
  if (how == reuse::both) only.set_flag(first, RDMA_OPTION_ID_REUSEADDR);
  if (how != reuse::no) only.set_flag(second, RDMA_OPTION_ID_REUSEADDR);
  only.bind(first, first_at);
  if (listen_before) only.listen(first);
  const int bound = only.bind(second, second_at.with_port(port_of(first)));
  if (!listen_before) only.listen(first);
  if (bound == 0) only.listen(second);
}

void wildcard_then_specific(scene& where) {
  two_on_a_port(where, wildcard(), where.own(), reuse::no);
}
void specific_then_wildcard(scene& where) {
  two_on_a_port(where, where.own(), wildcard(), reuse::no);
}
void wildcard_then_specific_reused(scene& where) {
  two_on_a_port(where, wildcard(), where.own(), reuse::both);
}
void specific_then_wildcard_reused(scene& where) {
  two_on_a_port(where, where.own(), wildcard(), reuse::both);
}
void specific_twice_reused(scene& where) {
  two_on_a_port(where, where.own(), where.own(), reuse::both);
}
void specific_twice_reused_by_second(scene& where) {
  two_on_a_port(where, where.own(), where.own(), reuse::second_only);
}
void specific_twice_reused_while_listening(scene& where) {
  two_on_a_port(where, where.own(), where.own(), reuse::both, true);
}
void specific_and_loopback(scene& where) {
  two_on_a_port(where, where.own(), socket_address::parse("127.0.0.1"), reuse::no);
}
void ipv4_then_ipv6_specific(scene& where) {
  two_on_a_port(where, where.own(), where.own6(), reuse::no);
}
void ipv4_then_ipv6_wildcard(scene& where) {
  two_on_a_port(where, wildcard(), wildcard6(), reuse::no);
}
void ipv6_then_ipv4_wildcard(scene& where) {
  two_on_a_port(where, wildcard6(), wildcard(), reuse::no);
}

void ipv6_only_wildcard(scene& where) {
  auto& only = where.add("only");
  auto* const first = only.create("first");
  auto* const second = only.create("second");
  only.set_flag(first, RDMA_OPTION_ID_AFONLY);
  only.bind(first, wildcard6());
  only.bind(second, wildcard(port_of(first)));
  only.listen(first);
  only.listen(second);
}

void ipv4_then_ipv6_only_wildcard(scene& where) {
  auto& only = where.add("only");
  auto* const first = only.create("first");
  auto* const second = only.create("second");
  only.set_flag(second, RDMA_OPTION_ID_AFONLY);
  only.bind(first, wildcard());
  only.bind(second, wildcard6(port_of(first)));
  only.listen(first);
  only.listen(second);
}

constexpr scenario scenarios[] = {
    {"bind_port_0", bind_port_0},
    {"bind_port_0_ipv6", bind_port_0_ipv6},
    {"bind_wildcard", bind_wildcard},
    {"bind_wildcard_ipv6", bind_wildcard_ipv6},
    {"bind_one_id_twice", bind_one_id_twice},
    {"bind_same_port_twice", bind_same_port_twice},
    {"bind_port_of_a_destroyed_id", bind_port_of_a_destroyed_id},
    {"bind_same_port_in_other_space", bind_same_port_in_other_space},
    {"bind_addresses_that_are_not_ours", bind_addresses_that_are_not_ours},
    {"bind_loopback", bind_loopback},
    {"bind_loopback_datagrams", bind_loopback_datagrams},
    {"bind_loopback_without_channel", bind_loopback_without_channel},
    {"bind_other_loopback", bind_other_loopback},
    {"bind_loopback_same_port_twice", bind_loopback_same_port_twice},
    {"bind_unknown_family", bind_unknown_family},
    {"bind_without_channel", bind_without_channel},
    {"create_in_every_port_space", create_in_every_port_space},
    {"two_wildcard_then_specific", wildcard_then_specific},
    {"two_specific_then_wildcard", specific_then_wildcard},
    {"two_wildcard_then_specific_reused", wildcard_then_specific_reused},
    {"two_specific_then_wildcard_reused", specific_then_wildcard_reused},
    {"two_specific_reused", specific_twice_reused},
    {"two_specific_reused_by_second", specific_twice_reused_by_second},
    {"two_specific_reused_while_listening", specific_twice_reused_while_listening},
    {"two_specific_and_loopback", specific_and_loopback},
    {"two_ipv4_then_ipv6_specific", ipv4_then_ipv6_specific},
    {"two_ipv4_then_ipv6_wildcard", ipv4_then_ipv6_wildcard},
    {"two_ipv6_then_ipv4_wildcard", ipv6_then_ipv4_wildcard},
    {"two_ipv6_only_then_ipv4_wildcard", ipv6_only_wildcard},
    {"two_ipv4_then_ipv6_only_wildcard", ipv4_then_ipv6_only_wildcard},
};

}  // namespace

std::span<const scenario> binding() { return scenarios; }

}  // namespace cm_oracle
