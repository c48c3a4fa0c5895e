#include <engine/address_handle.hpp>

#include <cstring>

#include <engine/netdev_port.hpp>
#include <net/netdev.hpp>

namespace softverbs::engine {

std::optional<transport::path_ends> path_of(const netdev_port& place,
                                            const ibv_ah_attr& attributes) {
  const auto rows = net::gid_table(place.device());
  const auto index = attributes.grh.sgid_index;
  if (index >= rows.size()) return std::nullopt;
  const auto source = rows[index].packets_carry;
  if (!source) return std::nullopt;
  transport::path_ends ends;
  ends.source = *source;
  ends.traffic_class = attributes.grh.traffic_class;
  std::memcpy(ends.destination.raw.data(), attributes.grh.dgid.raw, sizeof attributes.grh.dgid.raw);
  // The loopback's link-local GID is no address of its own.
  const auto& first = rows.front();
  if (place.device().loopback && first.gid == ends.destination) {
    ends.destination = first.packets_carry.value_or(ends.destination);
  }
  if (ends.source.is_ipv4() != ends.destination.is_ipv4()) return std::nullopt;
  return ends;
}

}  // namespace softverbs::engine
