#include <engine/own_addresses.hpp>

#include <algorithm>

namespace softverbs::engine {

std::vector<net::address> own_addresses(const net::netdev& device) {
  std::vector<net::address> addresses;
  for (const auto& row : net::gid_table(device)) {
    if (!row.packets_carry) continue;
    if (std::ranges::find(addresses, *row.packets_carry) != addresses.end()) continue;
    addresses.push_back(*row.packets_carry);
  }
  return addresses;
}

}  // namespace softverbs::engine
