#include <engine/traffic_counters.hpp>

#include <map>
#include <mutex>

namespace softverbs::engine {
namespace {

struct all_counters {
  std::mutex mutex;
  std::map<unsigned, traffic_counters> by_netdev;
};

}  // namespace

traffic_counters& traffic_counters::of(unsigned netdev_index) {
  static auto* const all = new all_counters;  // never destroyed: threads may still count
  const std::lock_guard lock(all->mutex);
  return all->by_netdev[netdev_index];
}

}  // namespace softverbs::engine
