#pragma once

// post_frames, post_buffers: what a stream's device posts to its queues, in lists of a few.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <rdmaxx/verbs/memory_region.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>
#include <rdmaxx/verbs/work_list.hpp>
#include <rdmaxx/verbs/work_request.hpp>

#include "stream/stream_device.hpp"

namespace RDMAXX_NAMESPACE::detail {

inline constexpr std::size_t most_at_once = 16;

/// Posts in lists of `most_at_once`, each of which `post` makes of a part of the requests.
template <class Request, class Post>
[[nodiscard]] stream_device::post_outcome post_in_lists(std::span<const Request> requests,
                                                        Post post) {
  std::size_t done = 0;
  while (done < requests.size()) {
    const auto part = requests.subspan(done, std::min(most_at_once, requests.size() - done));
    if (const auto posted = post(part); !posted)
      return {done + posted.error().first_not_posted().value_or(0), posted.error()};
    done += part.size();
  }
  return {done, std::nullopt};
}

/// `id_base` is added to the frames' ids. The tag of a frame in place is the address of its
/// memory_region.
[[nodiscard]] inline stream_device::post_outcome post_frames(
    const queue_pair& qp, const memory_region& memory, std::uint64_t id_base,
    std::span<const stream_device::send_request> requests) {
  return post_in_lists(requests, [&](std::span<const stream_device::send_request> part) {
    std::array<send_slot, most_at_once> slots;
    std::array<std::array<gather_element, 2>, most_at_once> elements;
    send_list list(slots, qp.max_inline());
    for (const auto& [frame, is_signaled] : part) {
      auto& pieces = elements[list.size()];
      std::size_t count = 1;
      pieces[0] = memory.gather_unchecked(frame.bytes);
      if (!frame.in_place.empty()) {
        const auto* const region = reinterpret_cast<const memory_region*>(frame.tag);
        pieces[count++] = region->gather_unchecked(frame.in_place);
      }
      list.push_unchecked(send_wr{.id = wr_id{id_base + frame.id},
                                  .from = std::span(pieces).first(count),
                                  .flags = is_signaled
                                               ? send_flag::signaled | send_flag::inline_if_fits
                                               : send_flags(send_flag::inline_if_fits)});
    }
    return qp.post(list);
  });
}

/// `Queue` is a queue_pair or a shared_receive_queue.
template <class Queue>
[[nodiscard]] stream_device::post_outcome post_buffers(
    const Queue& queue, const memory_region& memory,
    std::span<const stream_device::receive_request> requests) {
  return post_in_lists(requests, [&](std::span<const stream_device::receive_request> part) {
    std::array<recv_slot, most_at_once> slots;
    recv_list list(slots);
    for (const auto& [buffer, into] : part)
      list.push_unchecked(recv_wr{.id = wr_id{buffer}, .into = memory.scatter_unchecked(into)});
    return queue.post(list);
  });
}

}  // namespace RDMAXX_NAMESPACE::detail
