#include "stream/verbs_stream_device.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include <rdmaxx/verbs/memory_region.hpp>

namespace RDMAXX_NAMESPACE::detail {

namespace {

constexpr std::size_t most_at_once = 16;

/// Posts in lists of `most_at_once`, each of which `fill` makes of a part of the requests.
template <class Request, class Post>
stream_device::post_outcome post_in_lists(std::span<const Request> requests, Post post) {
  std::size_t done = 0;
  while (done < requests.size()) {
    const auto part = requests.subspan(done, std::min(most_at_once, requests.size() - done));
    if (const auto posted = post(part); !posted)
      return {done + posted.error().first_not_posted().value_or(0), posted.error()};
    done += part.size();
  }
  return {done, std::nullopt};
}

}  // namespace

poll_result verbs_stream_device::poll(queue which, std::span<work_completion> into) {
  return (which == queue::sends ? resources_.send_cq : resources_.recv_cq).poll(into);
}

result<void> verbs_stream_device::arm(queue which) {
  return (which == queue::sends ? resources_.send_cq : resources_.recv_cq).req_notify();
}

result<std::optional<stream_device::queue>> verbs_stream_device::next_completion_event() {
  RDMAXX_TRY(const auto event, resources_.channel.try_get_event());
  if (!event) return std::nullopt;
  const bool is_receive = event->queue().native() == resources_.recv_cq.native();
  return is_receive ? queue::receives : queue::sends;
}

std::optional<stream_device::connection_event> verbs_stream_device::next_connection_event() {
  const auto fetched = connection_.id().channel().try_get_event();
  if (!fetched) return std::nullopt;
  const auto& event = *fetched;
  if (!event) return std::nullopt;
  if (event->type() == cm_event_type::disconnected) return connection_event::disconnected;
  if (event->type() == cm_event_type::device_removal) return connection_event::device_removed;
  return connection_event::other;
}

stream_device::post_outcome verbs_stream_device::post_sends(
    std::span<const send_request> requests) {
  return post_in_lists(requests, [this](std::span<const send_request> part) {
    std::array<send_slot, most_at_once> slots;
    std::array<std::array<gather_element, 2>, most_at_once> elements;
    send_list list(slots, connection_.qp().max_inline());
    for (const auto& [frame, is_signaled] : part) {
      auto& pieces = elements[list.size()];
      std::size_t count = 1;
      pieces[0] = resources_.send_memory.gather_unchecked(frame.bytes);
      if (!frame.in_place.empty()) {
        const auto* const region = reinterpret_cast<const memory_region*>(frame.tag);
        pieces[count++] = region->gather_unchecked(frame.in_place);
      }
      list.push_unchecked(send_wr{.id = wr_id{frame.sequence},
                                  .from = std::span(pieces).first(count),
                                  .flags = is_signaled
                                               ? send_flag::signaled | send_flag::inline_if_fits
                                               : send_flags(send_flag::inline_if_fits)});
    }
    return connection_.qp().post(list);
  });
}

stream_device::post_outcome verbs_stream_device::post_receives(
    std::span<const receive_request> requests) {
  return post_in_lists(requests, [this](std::span<const receive_request> part) {
    std::array<recv_slot, most_at_once> slots;
    recv_list list(slots);
    for (const auto& [slot, into] : part) {
      list.push_unchecked(
          recv_wr{.id = wr_id{slot}, .into = resources_.receive_memory.scatter_unchecked(into)});
    }
    return connection_.qp().post(list);
  });
}

result<void> verbs_stream_device::post_probe() {
  return connection_.qp().post(write_wr{.id = wr_id{probe_id}});
}

void verbs_stream_device::disconnect() {
  if (!connection_.disconnect()) flush_requests();
}

void verbs_stream_device::flush_requests() { (void)connection_.qp().to_error(); }

void verbs_stream_device::destroy_queue_pair() { (void)connection_.id().take_qp(); }

}  // namespace RDMAXX_NAMESPACE::detail
