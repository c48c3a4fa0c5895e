// The addresses that packets of a netdev carry: those of its GID table, each once. Any thread.
#pragma once

#include <vector>

#include <net/address.hpp>
#include <net/netdev.hpp>

namespace softverbs::engine {

/// As they are now.
[[nodiscard]] std::vector<net::address> own_addresses(const net::netdev& device);

}  // namespace softverbs::engine
