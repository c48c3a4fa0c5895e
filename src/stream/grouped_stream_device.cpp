#include "stream/grouped_stream_device.hpp"

#include <mutex>

#include "stream/post_frames.hpp"

namespace RDMAXX_NAMESPACE::detail {

stream_protocol::engine_memory grouped_stream_device::memory() noexcept {
  auto& shared = place_.group().resources();
  return {.control = shared.control_memory(place_.member().place),
          .send = &shared.sends,
          .send_buffers = place_.group().config().busy_buffers,
          .receive = &shared.receives};
}

// Completions that arrived before the stream had a waiter stay in its inbox; the first call handles
// them.
result<void> grouped_stream_device::attach(stream_waiter& waiter) {
  RDMAXX_TRY(connection_.id().migrate(place_.group().events()));
  const std::lock_guard lock(place_.group().mutex);
  place_.member().waiter = &waiter;
  return {};
}

void grouped_stream_device::release(stream_protocol::protocol_engine& engine) {
  {
    const std::lock_guard lock(place_.group().mutex);
    place_.member().waiter = nullptr;
  }
  if (has_queue_pair()) flush_requests();
  connection_ = {};  // may take a while
  place_.leave(&engine);
}

poll_result grouped_stream_device::poll(queue which, std::span<work_completion> into) {
  return place_.group().poll(place_.member(), which, into);
}

result<bool> grouped_stream_device::arm(queue which) {
  return place_.group().armed().arm(resources(), which);
}

result<void> grouped_stream_device::take_completion_events() {
  return place_.group().armed().take_events(resources());
}

std::optional<stream_device::connection_event> grouped_stream_device::next_connection_event() {
  const auto event = place_.group().next_event(place_.member());
  if (!event) return std::nullopt;
  return meaning_of(*event);
}

stream_device::post_outcome grouped_stream_device::post_sends(
    std::span<const send_request> requests) {
  return post_frames(connection_.qp(), resources().send_memory, place_.member().id_base(),
                     requests);
}

stream_device::post_outcome grouped_stream_device::post_receives(
    std::span<const receive_request> requests) {
  return post_buffers(resources().srq, resources().receive_memory, requests);
}

result<void> grouped_stream_device::post_probe() {
  return connection_.qp().post(write_wr{.id = wr_id{place_.member().id_base() + probe_id}});
}

}  // namespace RDMAXX_NAMESPACE::detail
