#pragma once

// verbs_stream_device: a stream_device made of a connection and the resources of a stream.
//
// Owns both. Its destructor ends the connection and frees the memory; what is in flight is lost.
// Threads: one at a time.

#include <optional>
#include <span>
#include <utility>

#include <rdmaxx/cm/connection.hpp>

#include "stream/stream_device.hpp"
#include "stream/stream_resources.hpp"

namespace RDMAXX_NAMESPACE::detail {

class verbs_stream_device final : public stream_device {
 public:
  verbs_stream_device(cm::connection connected, stream_resources resources)
      : resources_(std::move(resources)), connection_(std::move(connected)) {}

  [[nodiscard]] const cm::connection& connection() const noexcept { return connection_; }
  [[nodiscard]] const stream_resources& resources() const noexcept { return resources_; }

  [[nodiscard]] poll_result poll(queue which, std::span<work_completion> into) override;
  [[nodiscard]] result<void> arm(queue which) override;
  [[nodiscard]] result<std::optional<queue>> next_completion_event() override;
  [[nodiscard]] std::optional<connection_event> next_connection_event() override;
  /// The tag of a frame in place is the address of its memory_region.
  [[nodiscard]] post_outcome post_sends(std::span<const send_request> requests) override;
  [[nodiscard]] post_outcome post_receives(std::span<const receive_request> requests) override;
  [[nodiscard]] result<void> post_probe() override;
  void disconnect() override;
  void flush_requests() override;
  void destroy_queue_pair() override;
  [[nodiscard]] bool has_queue_pair() const override { return static_cast<bool>(connection_.qp()); }
  [[nodiscard]] int completion_fd() const override { return resources_.channel.fd(); }
  [[nodiscard]] int connection_fd() const override { return connection_.fd(); }

 private:
  stream_resources resources_;  ///< outlives the queue pair, which the connection has
  cm::connection connection_;
};

}  // namespace RDMAXX_NAMESPACE::detail
