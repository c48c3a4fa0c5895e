#include <engine/qpn_table.hpp>

namespace softverbs::engine {

std::shared_ptr<endpoint> qpn_table::allocate() {
  const std::lock_guard lock(mutex_);
  if (taken_ == numbers) return nullptr;
  while (endpoints_[next_ % numbers] != nullptr) ++next_;
  const auto index = next_++ % numbers;
  endpoints_[index] = std::make_shared<endpoint>(std::uint32_t{port_} << 8 | index);
  ++taken_;
  return endpoints_[index];
}

void qpn_table::release(std::uint32_t qpn) {
  const std::lock_guard lock(mutex_);
  endpoints_[qpn % numbers] = nullptr;
  --taken_;
}

std::shared_ptr<endpoint> qpn_table::find(std::uint32_t qpn) const {
  if (qpn >> 8 != port_) return nullptr;
  const std::lock_guard lock(mutex_);
  return endpoints_[qpn % numbers];
}

std::vector<std::shared_ptr<endpoint>> qpn_table::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<endpoint>> found;
  for (const auto& each : endpoints_) {
    if (each != nullptr) found.push_back(each);
  }
  return found;
}

}  // namespace softverbs::engine
