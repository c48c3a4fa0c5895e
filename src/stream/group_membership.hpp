#pragma once

// group_membership: a stream's place in a device_group, returned by the destructor.
//
// Move-only; outlives the queue pair that joining created. Threads: one.

#include <memory>
#include <utility>

#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/core/result.hpp>

#include "stream/device_group.hpp"

namespace RDMAXX_NAMESPACE::detail {

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

  /// The queue pair has been destroyed.
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

}  // namespace RDMAXX_NAMESPACE::detail
