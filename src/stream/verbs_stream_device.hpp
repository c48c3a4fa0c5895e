#pragma once

// verbs_stream_device: the device of a stream with resources of its own.

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "stream/armed_queues.hpp"
#include "stream/connected_device.hpp"

namespace RDMAXX_NAMESPACE::detail {

class verbs_stream_device final : public connected_device {
 public:
  verbs_stream_device(cm::connection connected, std::unique_ptr<stream_resources> resources)
      : connected_device(std::move(connected)), resources_(std::move(resources)) {}
  ~verbs_stream_device() override {
    connection_ = {};  // destroys the queue pair before its memory
  }

  [[nodiscard]] const stream_resources& resources() const noexcept override { return *resources_; }
  [[nodiscard]] stream_protocol::engine_memory memory() noexcept override;
  [[nodiscard]] wait_group& waiting() noexcept override { return waiting_; }
  [[nodiscard]] result<void> attach(stream_waiter& /*waiter*/) override { return {}; }
  void release(stream_protocol::protocol_engine& /*engine*/) override {}

  [[nodiscard]] poll_result poll(queue which, std::span<work_completion> into) override;
  [[nodiscard]] result<bool> arm(queue which) override { return armed_.arm(*resources_, which); }
  [[nodiscard]] result<void> take_completion_events() override {
    return armed_.take_events(*resources_);
  }
  [[nodiscard]] std::optional<connection_event> next_connection_event() override;
  [[nodiscard]] post_outcome post_sends(std::span<const send_request> requests) override;
  [[nodiscard]] post_outcome post_receives(std::span<const receive_request> requests) override;
  [[nodiscard]] result<void> post_probe() override;

 private:
  std::unique_ptr<stream_resources> resources_;
  armed_queues armed_;
  wait_group waiting_;
};

}  // namespace RDMAXX_NAMESPACE::detail
