#include "stream/stream_resources.hpp"

#include <rdmaxx/stream/send_half.hpp>

namespace RDMAXX_NAMESPACE::detail {

using stream_protocol::send_half;

result<stream_resources> stream_resources::for_id(const cm_id& id, const stream_options& options) {
  RDMAXX_TRY(options.check());
  RDMAXX_TRY(const auto device, id.context());
  RDMAXX_TRY(const auto pd, device.alloc_pd());
  stream_resources made;
  RDMAXX_TRY(made.channel, device.create_completion_channel());
  // Data, control frames, and a sign of life.
  const auto sends =
      options.send_buffers + static_cast<std::uint32_t>(send_half::control_slots) + 1;
  RDMAXX_TRY(made.send_cq, device.create_cq({.capacity = sends, .channel = made.channel}));
  RDMAXX_TRY(made.recv_cq,
             device.create_cq({.capacity = options.window.buffers, .channel = made.channel}));
  RDMAXX_TRY(made.send_memory, pd.allocate_local({.bytes = send_half::control_bytes +
                                                           std::size_t{options.send_buffers} *
                                                               options.send_buffer_bytes}));
  RDMAXX_TRY(made.receive_memory, pd.allocate_local({.bytes = std::size_t{options.window.buffers} *
                                                              options.window.buffer_bytes}));
  cm_qp_config wanted{.pd = pd,
                      .send_cq = made.send_cq,
                      .recv_cq = made.recv_cq,
                      .capabilities = {.max_send_wr = sends,
                                       .max_recv_wr = options.window.buffers,
                                       .max_send_sge = 2,
                                       .max_recv_sge = 1,
                                       .max_inline = options.inline_bytes}};
  auto created = id.create_qp(wanted);
  if (!created && options.inline_bytes > 0) {
    wanted.capabilities.max_inline = 0;  // a device that cannot copy so much
    created = id.create_qp(wanted);
  }
  if (!created) return created.error();
  for (std::uint32_t slot = 0; slot < options.window.buffers; ++slot) {
    const auto place = made.receive_memory.bytes().subspan(
        std::size_t{slot} * options.window.buffer_bytes, options.window.buffer_bytes);
    RDMAXX_TRY(id.qp().post(
        recv_wr{.id = wr_id{slot}, .into = made.receive_memory.scatter_unchecked(place)}));
  }
  return made;
}

}  // namespace RDMAXX_NAMESPACE::detail
