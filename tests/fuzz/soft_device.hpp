// The loopback's soft device, opened once for the whole run of a fuzzer.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include <base/settings.hpp>
#include <engine/device_context.hpp>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <verbs/soft_verbs.hpp>

#include "input.hpp"

namespace fuzz {

inline constexpr std::uint8_t ipv4_gid = 1;

/// With limits so small that an input reaches them.
[[nodiscard]] inline ibv_context* soft_device() {
  static auto* const opened = [] {
    for (const auto& [name, value] :
         {std::pair<std::string_view, std::string_view>{"NETDEVS", "lo"},
          {"LOG", "none"},
          {"MAX_CQE", "1K"},
          {"MAX_QP_WR", "64"},
          {"MAX_SGE", "8"},
          {"MAX_INLINE", "128"},
          {"MAX_MR", "64"}}) {
      require(softverbs::settings::set(name, value) == softverbs::settings::change::done);
    }
    const auto devices = softverbs::verbs::list_devices();
    require(devices.size() == 1);
    auto* const context = softverbs::verbs::open_device(devices.front());
    require(context != nullptr);
    require(::fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
    return context;
  }();
  return opened;
}

[[nodiscard]] inline ibv_ah_attr path_to_itself() {
  static const auto path = [] {
    ibv_ah_attr made{};
    made.is_global = 1;
    made.port_num = 1;
    made.grh.sgid_index = ipv4_gid;
    require(softverbs::verbs::query_gid(soft_device(), 1, ipv4_gid, &made.grh.dgid) == 0);
    return made;
  }();
  return path;
}

}  // namespace fuzz
