#pragma once

// grouped_stream_device: the device of a stream that shares its resources with the others of a
// device_group.
//
// Its functions are called with the lock of the group held, except for attach(), release() and the
// destructor, which take it.

#include <optional>
#include <span>
#include <utility>

#include "stream/connected_device.hpp"
#include "stream/group_membership.hpp"

namespace RDMAXX_NAMESPACE::detail {

class grouped_stream_device final : public connected_device {
 public:
  grouped_stream_device(cm::connection connected, group_membership place)
      : connected_device(std::move(connected)), place_(std::move(place)) {}
  ~grouped_stream_device() override {
    connection_ = {};  // destroys the queue pair before its place in the group
  }

  [[nodiscard]] const stream_resources& resources() const noexcept override {
    return place_.group().resources();
  }
  [[nodiscard]] stream_protocol::engine_memory memory() noexcept override;
  [[nodiscard]] wait_group& waiting() noexcept override { return place_.group(); }
  [[nodiscard]] result<void> attach(stream_waiter& waiter) override;
  void release(stream_protocol::protocol_engine& engine) override;

  [[nodiscard]] poll_result poll(queue which, std::span<work_completion> into) override;
  [[nodiscard]] result<bool> arm(queue which) override;
  [[nodiscard]] result<void> take_completion_events() override;
  [[nodiscard]] std::optional<connection_event> next_connection_event() override;
  [[nodiscard]] post_outcome post_sends(std::span<const send_request> requests) override;
  [[nodiscard]] post_outcome post_receives(std::span<const receive_request> requests) override;
  [[nodiscard]] result<void> post_probe() override;
  [[nodiscard]] int connection_fd() const override { return place_.group().events().fd(); }

 private:
  group_membership place_;
};

}  // namespace RDMAXX_NAMESPACE::detail
