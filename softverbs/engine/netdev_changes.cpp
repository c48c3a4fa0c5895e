#include <engine/netdev_changes.hpp>

#include <utility>

#include <engine/own_addresses.hpp>

namespace softverbs::engine {

netdev_changes::netdev_changes(const net::netdev& device, port_leases& ports,
                               netdev_observers& observers)
    : device_(device),
      ports_(ports),
      observers_(observers),
      changes_end_(changes_.fd()),
      was_up_(device.up),
      had_addresses_(own_addresses(device)) {}

bool netdev_changes::receive(receive_state& state, std::uint32_t /*events*/) {
  state.neighbours.forget();
  using change = netdev_observer::change;
  changes_.drain();
  const auto now = net::netdev_by_index(device_.index);
  const bool up = now && now->up;
  auto addresses = own_addresses(device_);
  const bool moved = addresses != had_addresses_;
  if (moved) ports_.bind_new_addresses();
  had_addresses_ = std::move(addresses);
  const bool turned = up != std::exchange(was_up_, up);
  if (turned) observers_.tell(up ? change::up : change::down);
  if (moved) observers_.tell(change::addresses);
  return false;
}

}  // namespace softverbs::engine
