#include "stream/verbs_stream_device.hpp"

#include "stream/post_frames.hpp"

namespace RDMAXX_NAMESPACE::detail {

stream_protocol::engine_memory verbs_stream_device::memory() noexcept {
  return {.control = resources_->control_memory(0),
          .send = &resources_->sends,
          .send_buffers = static_cast<std::uint32_t>(resources_->sends.size()),
          .receive = &resources_->receives};
}

poll_result verbs_stream_device::poll(queue which, std::span<work_completion> into) {
  return (which == queue::sends ? resources_->send_cq : resources_->recv_cq).poll(into);
}

std::optional<stream_device::connection_event> verbs_stream_device::next_connection_event() {
  const auto fetched = connection_.id().channel().try_get_event();
  if (!fetched) return std::nullopt;
  const auto& event = *fetched;
  if (!event) return std::nullopt;
  return meaning_of(event->type());
}

stream_device::post_outcome verbs_stream_device::post_sends(
    std::span<const send_request> requests) {
  return post_frames(connection_.qp(), resources_->send_memory, 0, requests);
}

stream_device::post_outcome verbs_stream_device::post_receives(
    std::span<const receive_request> requests) {
  return post_buffers(connection_.qp(), resources_->receive_memory, requests);
}

result<void> verbs_stream_device::post_probe() {
  return connection_.qp().post(write_wr{.id = wr_id{probe_id}});
}

}  // namespace RDMAXX_NAMESPACE::detail
