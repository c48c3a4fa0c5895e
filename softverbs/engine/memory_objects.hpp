// Regions and windows as users of verbs know them, and as the transport does.
#pragma once

#include <cstdint>

#include <engine/import_count.hpp>
#include <infiniband/verbs.h>
#include <transport/memory_domain.hpp>
#include <transport/memory_keys.hpp>

namespace softverbs::engine {

struct memory_region : ibv_mr, transport::memory_region {
  import_count imports;
};

struct memory_window : ibv_mw, transport::memory_window {};

[[nodiscard]] inline transport::memory_domain domain_of(const ibv_pd* pd) noexcept {
  return {.id = reinterpret_cast<std::uintptr_t>(pd)};
}

}  // namespace softverbs::engine
