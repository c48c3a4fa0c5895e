#pragma once

// stream_groups: the state behind a stream_group: a device_group for each device on which it has
// streams.
//
// Lifetime: shared by the copies of the stream_group. Threads: any.

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/stream_group.hpp>

#include "stream/device_group.hpp"

namespace RDMAXX_NAMESPACE::detail {

class stream_groups {
 public:
  explicit stream_groups(const stream_group_config& config) : config_(config) {}

  /// Null if there is no group.
  [[nodiscard]] static stream_groups* of(const stream_group& group) noexcept {
    return group.groups_.get();
  }
  [[nodiscard]] const stream_group_config& config() const noexcept { return config_; }
  /// Null if the device has no shared receive queues.
  [[nodiscard]] result<std::shared_ptr<device_group>> on(const context& device);
  [[nodiscard]] std::size_t streams();
  [[nodiscard]] std::size_t registered_bytes();

 private:
  struct one {
    context device;
    std::shared_ptr<device_group> group;
  };

  const stream_group_config config_;
  std::mutex mutex_;
  std::vector<one> groups_;
};

}  // namespace RDMAXX_NAMESPACE::detail
