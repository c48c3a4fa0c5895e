// The port of a soft device, as its network interface makes it.
#pragma once

#include <infiniband/verbs.h>
#include <net/netdev.hpp>

namespace softverbs::verbs {

/// What ibv_query_port says of it.
[[nodiscard]] ibv_port_attr describe_port(const net::netdev& netdev, bool up);

}  // namespace softverbs::verbs
