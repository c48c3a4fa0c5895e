// Where a UD message goes: what an ibv_ah stands for. Immutable, owned by the user.
#pragma once

#include <optional>

#include <infiniband/verbs.h>
#include <transport/send_work.hpp>

namespace softverbs::engine {

class netdev_port;

struct address_handle : ibv_ah {
  transport::path_ends ends;
};

/// The ends of the path that the attributes describe; nothing if the GID index does not exist, its
/// row cannot be used, or the two ends are not of the same family.
[[nodiscard]] std::optional<transport::path_ends> path_of(const netdev_port& place,
                                                          const ibv_ah_attr& attributes);

}  // namespace softverbs::engine
