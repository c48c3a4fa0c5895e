#pragma once

// device_group: what the streams of a stream_group share on one device: resources, an event
// channel, the lock, and the sorting of what the shared queues and the channel deliver.
//
// Sends identify their stream by the request's id, receives by the queue pair's number: both are
// valid in failed completions, too. Completions for a stream that does not poll itself go to its
// inbox, and tell_others() makes it progress. An inbox is bounded by what the stream has posted and
// granted.
//
// Lifetime: shared by its members and the stream_group. Threads: functions say who holds the lock.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <rdmaxx/cm/cm_event.hpp>
#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/cm/event_channel.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/stream_group.hpp>
#include <rdmaxx/verbs/work_completion.hpp>

#include "stream/armed_queues.hpp"
#include "stream/stream_resources.hpp"
#include "stream/wait_group.hpp"

namespace RDMAXX_NAMESPACE::detail {

class device_group final : public wait_group {
 public:
  using queue = stream_device::queue;

  /// A stream of the group, from before it is connected until its queue pair is destroyed.
  struct member {
    std::uint32_t place = 0;       ///< index in the group
    std::uint32_t generation = 0;  ///< of the place, which is reused for one stream after another
    std::uint32_t qp_number = 0;
    const rdma_cm_id* id = nullptr;
    stream_waiter* waiter = nullptr;  ///< while there is one
    std::array<std::vector<work_completion>, 2> inbox{};
    std::vector<cm_event_type> events{};
    bool has_news = false;

    [[nodiscard]] std::uint64_t id_base() const noexcept {
      return (std::uint64_t{generation} << 49) | (std::uint64_t{place} << 33);
    }
  };

  [[nodiscard]] static result<std::shared_ptr<device_group>> create(
      const context& device, const stream_group_config& config);
  ~device_group() override = default;

  [[nodiscard]] const stream_group_config& config() const noexcept { return config_; }
  [[nodiscard]] stream_resources& resources() noexcept { return *resources_; }
  [[nodiscard]] const event_channel& events() const noexcept { return events_; }

  // --- without the lock ------------------------------------------------------------------------

  /// Creates the identifier's queue pair. An error (resources) if the group is full.
  [[nodiscard]] result<member*> join(const cm_id& id);
  /// The member's queue pair has been destroyed. `engine`: its engine, if it already had one.
  void leave(member* who, stream_protocol::protocol_engine* engine);
  [[nodiscard]] std::size_t streams();

  // --- with the lock ---------------------------------------------------------------------------

  [[nodiscard]] poll_result poll(member& who, queue which, std::span<work_completion> into);
  [[nodiscard]] std::optional<cm_event_type> next_event(member& who);
  [[nodiscard]] armed_queues& armed() noexcept { return armed_; }
  void tell_others() override;

 private:
  device_group(std::unique_ptr<stream_resources> resources, event_channel events,
               const stream_group_config& config);

  [[nodiscard]] static std::size_t index(queue which) noexcept {
    return which == queue::sends ? 0 : 1;
  }
  /// False if the queue cannot be polled.
  bool sort_completions(queue which, const member* poller);
  void sort_events(const member* poller);
  [[nodiscard]] member* sender_of(std::uint64_t id) const noexcept;
  [[nodiscard]] member* receiver_of(std::uint32_t qp_number) const noexcept;
  void add_news(member& who, const member* poller);
  void post_free();

  const stream_group_config config_;
  std::unique_ptr<stream_resources> resources_;
  event_channel events_;
  armed_queues armed_;
  std::vector<std::unique_ptr<member>> members_;  ///< by place; null if free
  std::vector<std::uint32_t> generations_;        ///< by place
  std::vector<std::uint32_t> free_places_;
  std::unordered_map<std::uint32_t, member*> by_qp_number_;
  std::unordered_map<const rdma_cm_id*, member*> by_id_;
  std::vector<member*> news_;
  bool is_telling_ = false;
};

}  // namespace RDMAXX_NAMESPACE::detail
