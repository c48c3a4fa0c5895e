#pragma once

// grouped_stream_device: the device of a stream that shares its resources with the others of a
// device_group.
//
// Its functions are called with the lock of the group held, but for attach(), release() and the
// destructor, which take it.

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "stream/connected_device.hpp"
#include "stream/device_group.hpp"

namespace RDMAXX_NAMESPACE::detail {

/// A place in a device_group, which it gives back.
class group_membership {
 public:
  [[nodiscard]] static result<group_membership> of(std::shared_ptr<device_group> group,
                                                   const cm_id& id) {
    RDMAXX_TRY(auto* const joined, group->join(id));
    return group_membership(std::move(group), joined);
  }
  group_membership(group_membership&& other) noexcept
      : group_(std::move(other.group_)), member_(std::exchange(other.member_, nullptr)) {}
  group_membership& operator=(group_membership&& other) noexcept {
    std::swap(group_, other.group_);
    std::swap(member_, other.member_);
    return *this;
  }
  group_membership(const group_membership&) = delete;
  group_membership& operator=(const group_membership&) = delete;
  ~group_membership() { leave(nullptr); }

  /// The queue pair is gone.
  void leave(stream_protocol::protocol_engine* engine) {
    if (member_ != nullptr) group_->leave(std::exchange(member_, nullptr), engine);
  }
  [[nodiscard]] device_group& group() const noexcept { return *group_; }
  [[nodiscard]] device_group::member& member() const noexcept { return *member_; }

 private:
  group_membership(std::shared_ptr<device_group> group, device_group::member* joined) noexcept
      : group_(std::move(group)), member_(joined) {}

  std::shared_ptr<device_group> group_;
  device_group::member* member_;
};

class grouped_stream_device final : public connected_device {
 public:
  grouped_stream_device(cm::connection connected, group_membership place)
      : connected_device(std::move(connected)), place_(std::move(place)) {}
  ~grouped_stream_device() override {
    connection_ = {};  // with the queue pair, before its place
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
