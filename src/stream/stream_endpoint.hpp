#pragma once

// stream_endpoint: what one side of a stream prepares before it is connected: the identifier's
// queue pair, and receive buffers, its own or those of its group.
//
// Lifetime: outlives the identifier's queue pair until connected() hands both over to a device; a
// caller destroys the identifier first. Threads: one.

#include <memory>
#include <utility>
#include <variant>

#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/cm/connection.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/greeting.hpp>
#include <rdmaxx/stream/stream_options.hpp>

#include "stream/connected_device.hpp"
#include "stream/group_membership.hpp"
#include "stream/stream_resources.hpp"

namespace RDMAXX_NAMESPACE::detail {

class stream_endpoint {
 public:
  /// Creates the identifier's queue pair.
  [[nodiscard]] static result<stream_endpoint> for_id(const cm_id& id,
                                                      const stream_options& options);

  /// What the greeting announces.
  [[nodiscard]] const stream_protocol::receive_window& window() const noexcept { return window_; }
  [[nodiscard]] std::unique_ptr<connected_device> connected(cm::connection connection) &&;

 private:
  using resources = std::variant<std::unique_ptr<stream_resources>, group_membership>;

  stream_endpoint(resources of, stream_protocol::receive_window window)
      : resources_(std::move(of)), window_(window) {}

  resources resources_;
  stream_protocol::receive_window window_;
};

/// The window that a stream with these options announces on a device with shared receive queues.
[[nodiscard]] stream_protocol::receive_window window_of(const stream_options& options);

}  // namespace RDMAXX_NAMESPACE::detail
