// What needs no connection: names, addresses, devices.

#include "scenario.hpp"

namespace cm_oracle {

namespace {

void event_names(scene& where) {
  auto& only = where.add("only");
  for (int type = 0; type <= RDMA_CM_EVENT_TIMEWAIT_EXIT + 1; ++type) {
    only.write({{"type", type}, {"name", rdma_event_str(static_cast<rdma_cm_event_type>(type))}});
  }
}

void devices(scene& where) {
  auto& only = where.add("only");
  int count = 0;
  auto** const list = rdma_get_devices(&count);
  only.write({{"call", "rdma_get_devices"},
              {"list", list == nullptr ? "none" : "there"},
              {"more than none", count > 0},
              {"ends with nullptr", list != nullptr && list[count] == nullptr}});
  auto* const id = only.create("id");
  only.bind(id, where.own());
  bool found = false;
  for (int i = 0; i < count; ++i) found = found || list[i] == id->verbs;
  only.write({{"a bound identifier's device is in the list", found}});
  rdma_free_devices(list);
  auto** const uncounted = rdma_get_devices(nullptr);
  only.write({{"without a counter", uncounted == nullptr ? "none" : "there"}});
  rdma_free_devices(uncounted);
}

json describe(const scene& where, const sockaddr* address, socklen_t bytes) {
  if (address == nullptr) return {{"address", "none"}, {"bytes", bytes}};
  json described = where.describe(socket_address(*address));
  described["bytes"] = bytes;
  return described;
}

void look_up(scene& where, side& on, const char* what, const char* node, const char* service,
             const rdma_addrinfo* hints) {
  rdma_addrinfo* found = nullptr;
  on.call("rdma_getaddrinfo", nullptr,
          [&] { return rdma_getaddrinfo(node, service, hints, &found); }, {{"what", what}});
  for (const auto* each = found; each != nullptr; each = each->ai_next) {
    on.write({{"ai_flags", each->ai_flags},
              {"ai_family", name_of_family(each->ai_family)},
              {"ai_qp_type", name_of_qp_type(each->ai_qp_type)},
              {"ai_port_space", name_of(static_cast<rdma_port_space>(each->ai_port_space))},
              {"ai_src", describe(where, each->ai_src_addr, each->ai_src_len)},
              {"ai_dst", describe(where, each->ai_dst_addr, each->ai_dst_len)},
              {"ai_src_canonname", each->ai_src_canonname == nullptr ? "none" : "there"},
              {"ai_dst_canonname", each->ai_dst_canonname == nullptr ? "none" : "there"},
              {"ai_route_len", each->ai_route_len},
              {"ai_connect_len", each->ai_connect_len}});
  }
  if (found != nullptr) rdma_freeaddrinfo(found);
}

void addresses(scene& where) {
  auto& only = where.add("only");
  where.know_port(7471, "7471");
  const auto own = where.own().text();
  const auto own6 = where.own6().text();
  rdma_addrinfo hints{};
  look_up(where, only, "without hints", own.c_str(), "7471", nullptr);
  look_up(where, only, "without hints, IPv6", own6.c_str(), "7471", nullptr);
  look_up(where, only, "empty hints", own.c_str(), "7471", &hints);
  hints.ai_port_space = RDMA_PS_UDP;
  look_up(where, only, "UDP", own.c_str(), "7471", &hints);
  hints.ai_port_space = RDMA_PS_IPOIB;
  look_up(where, only, "IPoIB", own.c_str(), "7471", &hints);
  hints = {};
  hints.ai_qp_type = IBV_QPT_UD;
  look_up(where, only, "UD", own.c_str(), "7471", &hints);
  hints = {};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = RAI_PASSIVE;
  look_up(where, only, "passive", own.c_str(), "7471", &hints);
  look_up(where, only, "passive, without an address", nullptr, "7471", &hints);
  hints.ai_flags = RAI_NUMERICHOST;
  look_up(where, only, "numeric", own.c_str(), "7471", &hints);
  look_up(where, only, "numeric, and it is not", "localhost", "7471", &hints);
  hints.ai_flags = RAI_NOROUTE;
  look_up(where, only, "without a route", own.c_str(), "7471", &hints);
  hints.ai_flags = RAI_FAMILY;
  hints.ai_family = AF_INET6;
  look_up(where, only, "the other family", own.c_str(), "7471", &hints);
  hints.ai_family = AF_INET;
  look_up(where, only, "the same family", own.c_str(), "7471", &hints);
  hints = {};
  auto source = where.own();
  hints.ai_src_addr = source.native();
  hints.ai_src_len = source.size();
  look_up(where, only, "with a source", own.c_str(), "7471", &hints);
  look_up(where, only, "neither node nor service", nullptr, nullptr, nullptr);
  look_up(where, only, "no service", own.c_str(), nullptr, nullptr);
  look_up(where, only, "no such service", own.c_str(), "no-such-service", nullptr);
}

/// Of hints alone: libfabric asks so.
void addresses_in_hints(scene& where) {
  auto& only = where.add("only");
  auto source = where.own();
  auto destination = where.nobodys(0);
  rdma_addrinfo hints{};
  look_up(where, only, "empty", nullptr, nullptr, &hints);
  hints.ai_dst_addr = destination.native();
  hints.ai_dst_len = destination.size();
  look_up(where, only, "a destination", nullptr, nullptr, &hints);
  hints.ai_src_addr = source.native();
  hints.ai_src_len = source.size();
  hints.ai_family = AF_INET;
  hints.ai_port_space = RDMA_PS_UDP;
  look_up(where, only, "both", nullptr, nullptr, &hints);
  hints.ai_flags = RAI_PASSIVE;
  look_up(where, only, "passive", nullptr, nullptr, &hints);
  look_up(where, only, "passive, with a name", source.text().c_str(), nullptr, &hints);
}

constexpr scenario scenarios[] = {
    {"event_names", event_names},
    {"devices", devices},
    {"addresses", addresses},
    {"addresses_in_hints", addresses_in_hints},
};

}  // namespace

std::span<const scenario> lookups() { return scenarios; }

}  // namespace cm_oracle
