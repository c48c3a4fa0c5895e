#include "stream/stream_groups.hpp"

#include <algorithm>

namespace RDMAXX_NAMESPACE::detail {

result<std::shared_ptr<device_group>> stream_groups::on(const context& device) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      groups_, [&](const one& each) { return each.device.native() == device.native(); });
  if (found != groups_.end()) return found->group;
  RDMAXX_TRY(const auto limits, device.query_device());
  std::shared_ptr<device_group> made;
  if (limits.max_srq != 0) {
    RDMAXX_TRY(made, device_group::create(device, config_));
  }
  groups_.push_back({device, made});
  return made;
}

std::size_t stream_groups::streams() {
  const std::lock_guard lock(mutex_);
  std::size_t all = 0;
  for (const auto& each : groups_)
    if (each.group != nullptr) all += each.group->streams();
  return all;
}

std::size_t stream_groups::registered_bytes() {
  const std::lock_guard lock(mutex_);
  std::size_t all = 0;
  for (const auto& [device, group] : groups_) {
    if (group == nullptr) continue;
    all += group->resources().send_memory.size() + group->resources().receive_memory.size();
  }
  return all;
}

}  // namespace RDMAXX_NAMESPACE::detail
