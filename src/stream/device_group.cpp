#include "stream/device_group.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include <rdmaxx/stream/protocol_engine.hpp>

#include "stream/post_frames.hpp"
#include "stream/stream_waiter.hpp"

namespace RDMAXX_NAMESPACE::detail {

using stream_protocol::receive_window;

namespace {

// A send's id: 15 bits for the generation, 16 for the place, one for probes, 32 for the frame.
constexpr std::uint64_t id_within_stream = (std::uint64_t{1} << 33) - 1;
constexpr std::uint32_t generations = 1U << 15;

stream_memory_sizes sizes_for(const stream_group_config& config) {
  const auto own = config.idle_credits + receive_window::control_buffers;
  return {.streams = config.streams,
          .receive_buffers = config.streams * own + config.spare_receive_buffers,
          .spare_receive_buffers = config.spare_receive_buffers,
          .receive_buffer_bytes = config.buffer_bytes,
          .send_buffers = config.send_buffers,
          .send_buffer_bytes = config.buffer_bytes};
}

}  // namespace

result<std::shared_ptr<device_group>> device_group::create(const context& device,
                                                           const stream_group_config& config) {
  RDMAXX_TRY(auto resources, stream_resources::create(device, sizes_for(config)));
  RDMAXX_TRY(auto events, event_channel::create());
  return std::shared_ptr<device_group>(
      new device_group(std::move(resources), std::move(events), config));
}

device_group::device_group(std::unique_ptr<stream_resources> resources, event_channel events,
                           const stream_group_config& config)
    : config_(config),
      resources_(std::move(resources)),
      events_(std::move(events)),
      members_(config.streams),
      generations_(config.streams) {
  for (auto place = config.streams; place != 0; --place) free_places_.push_back(place - 1);
}

// --- members -------------------------------------------------------------------------------------

result<device_group::member*> device_group::join(const cm_id& id) {
  RDMAXX_TRY(resources_->create_qp(
      id, {.send_buffers = config_.busy_buffers, .inline_bytes = config_.inline_bytes}));
  const std::lock_guard lock(mutex);
  if (free_places_.empty()) {
    return errno_error("joining a stream group", ENOMEM,
                       fmt::format("the group already has {} streams", config_.streams),
                       "raise stream_group_config::streams, or use another group")
        .as(error_category::resources);
  }
  const auto place = free_places_.back();
  free_places_.pop_back();
  auto& joined = members_[place];
  joined = std::make_unique<member>(member{.place = place,
                                           .generation = generations_[place],
                                           .qp_number = id.qp().number().value(),
                                           .id = id.native()});
  generations_[place] = (generations_[place] + 1) % generations;
  // A destroyed queue pair may have had this number: no completion of that one is outstanding.
  if (by_qp_number_.contains(joined->qp_number)) {
    sort_completions(queue::receives, nullptr);
    tell_others();
  }
  by_qp_number_[joined->qp_number] = joined.get();
  by_id_[joined->id] = joined.get();
  return joined.get();
}

void device_group::leave(member* who, stream_protocol::protocol_engine* engine) {
  const std::lock_guard lock(mutex);
  sort_completions(queue::sends, nullptr);
  sort_completions(queue::receives, nullptr);
  if (engine != nullptr) engine->leave();
  // Frames that it had received but not handled.
  for (const auto& each : who->inbox[index(queue::receives)])
    if (each) resources_->receives.returned(each.id().value());
  if (const auto mine = by_qp_number_.find(who->qp_number);
      mine != by_qp_number_.end() && mine->second == who) {
    by_qp_number_.erase(mine);
  }
  if (const auto mine = by_id_.find(who->id); mine != by_id_.end() && mine->second == who)
    by_id_.erase(mine);
  std::erase(news_, who);
  const auto place = who->place;
  members_[place].reset();
  free_places_.push_back(place);
  post_free();
  tell_others();
}

std::size_t device_group::streams() {
  const std::lock_guard lock(mutex);
  return config_.streams - free_places_.size();
}

// A failure shows up when the next stream posts.
void device_group::post_free() {
  auto& pool = resources_->receives;
  while (const auto buffer = pool.next_to_post()) {
    const stream_device::receive_request one{.buffer = *buffer, .into = pool.memory_of(*buffer)};
    if (post_buffers(resources_->srq, resources_->receive_memory, std::span(&one, 1)).failure)
      return;
    pool.posted(*buffer);
  }
}

// --- sorting -------------------------------------------------------------------------------------

device_group::member* device_group::sender_of(std::uint64_t id) const noexcept {
  const auto place = static_cast<std::size_t>((id >> 33) & 0xffff);
  if (place >= members_.size()) return nullptr;
  auto* const found = members_[place].get();
  return found != nullptr && found->id_base() == (id & ~id_within_stream) ? found : nullptr;
}

device_group::member* device_group::receiver_of(std::uint32_t qp_number) const noexcept {
  const auto found = by_qp_number_.find(qp_number);
  return found == by_qp_number_.end() ? nullptr : found->second;
}

void device_group::add_news(member& who, const member* poller) {
  if (&who == poller || who.has_news) return;
  who.has_news = true;
  news_.push_back(&who);
}

bool device_group::sort_completions(queue which, const member* poller) {
  const auto& cq = which == queue::sends ? resources_->send_cq : resources_->recv_cq;
  std::array<work_completion, 32> completions;
  for (;;) {
    const auto polled = cq.poll(completions);
    if (!polled) return false;
    for (const auto& each : *polled) {
      auto one = each.native();
      auto* const whose = which == queue::sends ? sender_of(one.wr_id) : receiver_of(one.qp_num);
      if (which == queue::sends) {
        one.wr_id &= id_within_stream;
      } else if (whose == nullptr || one.status != IBV_WC_SUCCESS) {
        resources_->receives.returned(one.wr_id);  // it holds no frame
      }
      if (whose == nullptr) continue;
      whose->inbox[index(which)].emplace_back(one);
      add_news(*whose, poller);
    }
    if ((*polled).size() < completions.size()) return true;
  }
}

void device_group::sort_events(const member* poller) {
  bool has_some = false;
  for (;;) {
    const auto fetched = events_.try_get_event();
    if (!fetched) break;
    const auto& event = *fetched;
    if (!event) break;
    const auto found = by_id_.find(event->native()->id);
    if (found == by_id_.end()) continue;
    found->second->events.push_back(event->type());
    add_news(*found->second, poller);
    has_some = true;
  }
  // Frames that arrived before a peer disconnected reach the inbox before the disconnection is
  // reported.
  if (has_some) sort_completions(queue::receives, poller);
}

poll_result device_group::poll(member& who, queue which, std::span<work_completion> into) {
  auto& inbox = who.inbox[index(which)];
  if (inbox.empty() && !is_telling_ && !sort_completions(which, &who)) return {into.data(), -1};
  const auto count = std::min(inbox.size(), into.size());
  const auto end = inbox.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(inbox.begin(), end, into.begin());
  inbox.erase(inbox.begin(), end);
  return {into.data(), static_cast<int>(count)};
}

std::optional<cm_event_type> device_group::next_event(member& who) {
  if (who.events.empty() && !is_telling_) sort_events(&who);
  if (who.events.empty()) return std::nullopt;
  const auto first = who.events.front();
  who.events.erase(who.events.begin());
  return first;
}

void device_group::tell_others() {
  is_telling_ = true;  // they handle their inboxes and do not poll
  while (!news_.empty()) {
    auto& next = *news_.back();
    news_.pop_back();
    next.has_news = false;
    if (next.waiter != nullptr) next.waiter->take_news();
  }
  is_telling_ = false;
  if (wants_send_buffers && resources_->sends.available() != 0) {
    wants_send_buffers = false;
    for (auto* const each : followers) each->wake();
  }
}

}  // namespace RDMAXX_NAMESPACE::detail
