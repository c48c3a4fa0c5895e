// What can be recorded. Each scenario is on its own: own channels, identifiers and ports.
#pragma once

#include <span>

#include "scene.hpp"

namespace cm_oracle {

struct scenario {
  const char* name;
  void (*run)(scene& where);
};

std::span<const scenario> unanswered();
std::span<const scenario> binding();
std::span<const scenario> listening();
std::span<const scenario> resolving();
std::span<const scenario> connecting();
std::span<const scenario> refusing();
std::span<const scenario> disconnecting();
std::span<const scenario> queue_pairs();
std::span<const scenario> datagrams();
std::span<const scenario> multicast();
std::span<const scenario> channels_and_options();
std::span<const scenario> blocking();
std::span<const scenario> lookups();

}  // namespace cm_oracle
