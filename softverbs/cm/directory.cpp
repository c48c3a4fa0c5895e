#include <cm/directory.hpp>

#include <algorithm>

#include <base/random.hpp>

namespace softverbs::cm {

std::uint32_t directory::assign_comm_id(cm_id& who, std::uint16_t port) {
  constexpr unsigned comm_ids_of_port = 1U << 16U;
  auto drawn = random_number<std::uint16_t>();
  for (unsigned i = 0; i < comm_ids_of_port; ++i) {
    const auto comm_id = std::uint32_t{port} << 16U | drawn++;
    // A late message to an id that has gone is not for its successor.
    if (std::ranges::find(released_, comm_id) != released_.end()) continue;
    if (by_comm_id_.try_emplace(comm_id, &who).second) return comm_id;
  }
  return 0;
}

void directory::release_comm_id(std::uint32_t comm_id) {
  if (by_comm_id_.erase(comm_id) > 0) released_[next_released_++ % released_.size()] = comm_id;
}

cm_id* directory::with_comm_id(std::uint32_t comm_id) const {
  const auto found = by_comm_id_.find(comm_id);
  return found != by_comm_id_.end() ? found->second : nullptr;
}

cm_id* directory::with_request(const request_key& key) const {
  const auto found = requests_.find(key);
  return found != requests_.end() ? found->second : nullptr;
}

}  // namespace softverbs::cm
