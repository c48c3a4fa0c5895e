#include "conversation.hpp"
#include "scenario.hpp"

namespace cm_oracle {

namespace {

/// Somebody connects to a listener that is bound to `at`; it is not accepted.
void reach(scene& where, const socket_address& at, const socket_address& from_outside,
           bool family_only = false, bool reached = true) {
  conversation talk(where);
  auto* const listener = talk.passive.create("listener");
  if (family_only) talk.passive.set_flag(listener, RDMA_OPTION_ID_AFONLY);
  talk.passive.bind(listener, at);
  talk.passive.listen(listener);
  talk.passive.look_at(listener);
  talk.resolve_to(from_outside.with_port(ntohs(rdma_get_src_port(listener))));
  auto said = parameters("hello");
  talk.active.connect(talk.client, &said);
  if (reached) {
    if (auto* const server = talk.passive.next_request("server"); server != nullptr) {
      talk.passive.look_at(server);
      talk.passive.reject(server);
    }
  }
  talk.active.next();
  talk.passive.expect_silence();
}

void listen_specific(scene& where) { reach(where, where.own(), where.own()); }
void listen_specific_ipv6(scene& where) { reach(where, where.own6(), where.own6()); }
void listen_wildcard(scene& where) { reach(where, socket_address::parse("0.0.0.0"), where.own()); }
void listen_wildcard_ipv6(scene& where) { reach(where, socket_address::parse("::"), where.own6()); }
void listen_wildcard_ipv6_reached_by_ipv4(scene& where) {
  reach(where, socket_address::parse("::"), where.own());
}
void listen_wildcard_ipv4_not_reached_by_ipv6(scene& where) {
  reach(where, socket_address::parse("0.0.0.0"), where.own6(), false, false);
}
void listen_ipv6_only_reached_by_ipv6(scene& where) {
  reach(where, socket_address::parse("::"), where.own6(), true);
}
void listen_ipv6_only_not_reached_by_ipv4(scene& where) {
  reach(where, socket_address::parse("::"), where.own(), true, false);
}

void listen_twice(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, where.own());
  only.listen(id, 4);
  only.listen(id, 8);
  only.bind(id, where.own());
}

void listen_unbound(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.listen(id);
  only.look_at(id);
}

void listen_loopback(scene& where) {
  auto& only = where.add("only");
  for (const auto* const address : {"127.0.0.1", "::1"}) {
    auto* const id = only.create(address);
    only.bind(id, socket_address::parse(address));
    only.listen(id);
    only.look_at(id);
  }
}

void listen_backlogs(scene& where) {
  auto& only = where.add("only");
  for (const int backlog : {0, -1, 1 << 20}) {
    auto* const id = only.create("backlog " + std::to_string(backlog));
    only.bind(id, where.own());
    only.listen(id, backlog);
  }
}

void listen_then_other_calls(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, where.own());
  only.listen(id);
  only.resolve_addr(id, where.own(18515));
  only.resolve_route(id);
  only.disconnect(id);
  only.reject(id);
  only.expect_silence();
}

void listen_after_resolve(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.resolve_addr(id, where.own(18515));
  only.next();
  only.listen(id);
}

void listen_datagrams(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id", RDMA_PS_UDP);
  only.bind(id, where.own());
  only.listen(id);
  only.look_at(id);
  auto* const second = only.create("second", RDMA_PS_UDP);
  only.bind(second, where.own(ntohs(rdma_get_src_port(id))));
}

/// Nothing is accepted: how many requests fit?
void backlog_overflow(scene& where, int backlog, int requests) {
  conversation talk(where);
  talk.listen(backlog);
  for (int i = 1; i <= requests; ++i) {
    auto* const client = talk.active.create("client " + std::to_string(i));
    talk.active.resolve_addr(client, talk.at);
    talk.active.next();
    talk.active.resolve_route(client);
    talk.active.next();
    talk.active.create_qp(client);
    auto said = parameters();
    talk.active.connect(client, &said);
    // One after the other, so that the order is known.
    talk.active.expect_silence();
  }
  while (talk.passive.next(silence).id != nullptr) {
  }
  talk.active.expect_silence();
}

void backlog_of_1(scene& where) { backlog_overflow(where, 1, 4); }
void backlog_of_2(scene& where) { backlog_overflow(where, 2, 4); }

/// Does a place in the backlog become free by taking the event, or by accepting?
void backlog_is_freed(scene& where) {
  conversation talk(where);
  talk.listen(1);
  for (int i = 1; i <= 3; ++i) {
    auto* const client = talk.active.create("client " + std::to_string(i));
    talk.active.resolve_addr(client, talk.at);
    talk.active.next();
    talk.active.resolve_route(client);
    talk.active.next();
    talk.active.create_qp(client);
    auto said = parameters();
    talk.active.connect(client, &said);
    talk.passive.next_request("server " + std::to_string(i));
  }
}

/// A request for which there was no place is repeated, and then there may be one.
void backlog_is_freed_later(scene& where) {
  conversation talk(where);
  talk.listen(1);
  for (const auto* const label : {"first", "second"}) {
    auto* const client = talk.active.create(label);
    talk.active.resolve_addr(client, talk.at);
    talk.active.next();
    talk.active.resolve_route(client);
    talk.active.next();
    talk.active.create_qp(client);
    auto said = parameters();
    talk.active.connect(client, &said);
    talk.active.expect_silence();
  }
  talk.passive.next_request("first server");
  talk.passive.next_request("second server");
}

constexpr scenario scenarios[] = {
    {"listen_specific", listen_specific},
    {"listen_specific_ipv6", listen_specific_ipv6},
    {"listen_wildcard", listen_wildcard},
    {"listen_wildcard_ipv6", listen_wildcard_ipv6},
    {"listen_wildcard_ipv6_reached_by_ipv4", listen_wildcard_ipv6_reached_by_ipv4},
    {"listen_wildcard_ipv4_not_reached_by_ipv6", listen_wildcard_ipv4_not_reached_by_ipv6},
    {"listen_ipv6_only_reached_by_ipv6", listen_ipv6_only_reached_by_ipv6},
    {"listen_ipv6_only_not_reached_by_ipv4", listen_ipv6_only_not_reached_by_ipv4},
    {"listen_twice", listen_twice},
    {"listen_unbound", listen_unbound},
    {"listen_loopback", listen_loopback},
    {"listen_backlogs", listen_backlogs},
    {"listen_then_other_calls", listen_then_other_calls},
    {"listen_after_resolve", listen_after_resolve},
    {"listen_datagrams", listen_datagrams},
    {"backlog_of_1", backlog_of_1},
    {"backlog_of_2", backlog_of_2},
    {"backlog_is_freed", backlog_is_freed},
    {"backlog_is_freed_later", backlog_is_freed_later},
};

}  // namespace

std::span<const scenario> listening() { return scenarios; }

}  // namespace cm_oracle
