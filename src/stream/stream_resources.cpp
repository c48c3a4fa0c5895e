#include "stream/stream_resources.hpp"

#include <utility>

#include <rdmaxx/stream/send_half.hpp>

#include "stream/post_frames.hpp"

namespace RDMAXX_NAMESPACE::detail {

using stream_protocol::receive_pool;
using stream_protocol::send_half;
using stream_protocol::send_pool;

namespace {

// Control frames, and a keep-alive probe.
constexpr std::uint32_t small_sends = static_cast<std::uint32_t>(send_half::control_slots) + 1;

template <class Queue>
result<void> post_all(const Queue& queue, const stream_resources& resources) {
  for (std::size_t buffer = 0; buffer < resources.receives.size(); ++buffer) {
    const stream_device::receive_request one{.buffer = buffer,
                                             .into = resources.receives.memory_of(buffer)};
    const auto outcome = post_buffers(queue, resources.receive_memory, std::span(&one, 1));
    if (outcome.failure) return *outcome.failure;
  }
  return {};
}

}  // namespace

struct stream_resources::parts {
  protection_domain pd;
  completion_channel channel;
  completion_queue send_cq;
  completion_queue recv_cq;
  shared_receive_queue srq;
  owned_region send_memory;
  owned_region receive_memory;
};

stream_resources::stream_resources(parts made, const stream_memory_sizes& sizes)
    : pd(std::move(made.pd)),
      channel(std::move(made.channel)),
      send_cq(std::move(made.send_cq)),
      recv_cq(std::move(made.recv_cq)),
      srq(std::move(made.srq)),
      send_memory(std::move(made.send_memory)),
      receive_memory(std::move(made.receive_memory)),
      sends(send_memory.bytes().subspan(send_half::control_bytes * sizes.streams),
            sizes.send_buffer_bytes,
            sizes.streams > 1 ? send_pool::use::by_many : send_pool::use::by_one),
      receives(receive_memory.bytes(), sizes.receive_buffer_bytes, sizes.spare_receive_buffers) {}

result<std::unique_ptr<stream_resources>> stream_resources::create(
    const context& device, const stream_memory_sizes& sizes) {
  parts made;
  RDMAXX_TRY(made.pd, device.alloc_pd());
  RDMAXX_TRY(made.channel, device.create_completion_channel());
  // Every send may fail at once, signaled or not, and every receive buffer be full.
  RDMAXX_TRY(made.send_cq,
             device.create_cq({.capacity = sizes.send_buffers + small_sends * sizes.streams,
                               .channel = made.channel}));
  RDMAXX_TRY(made.recv_cq,
             device.create_cq({.capacity = sizes.receive_buffers, .channel = made.channel}));
  RDMAXX_TRY(
      made.send_memory,
      made.pd.allocate_local({.bytes = send_half::control_bytes * sizes.streams +
                                       std::size_t{sizes.send_buffers} * sizes.send_buffer_bytes}));
  RDMAXX_TRY(made.receive_memory,
             made.pd.allocate_local(
                 {.bytes = std::size_t{sizes.receive_buffers} * sizes.receive_buffer_bytes}));
  if (sizes.streams > 1) {
    RDMAXX_TRY(made.srq, made.pd.create_srq({.capacity = sizes.receive_buffers}));
  }
  std::unique_ptr<stream_resources> resources(new stream_resources(std::move(made), sizes));
  if (resources->srq) {
    RDMAXX_TRY(post_all(resources->srq, *resources));
  }
  return resources;
}

result<std::unique_ptr<stream_resources>> stream_resources::for_id(const cm_id& id,
                                                                   const stream_memory_sizes& sizes,
                                                                   std::uint32_t inline_bytes) {
  RDMAXX_TRY(const auto device, id.context());
  RDMAXX_TRY(auto resources, create(device, sizes));
  RDMAXX_TRY(resources->create_qp(id, {.send_buffers = sizes.send_buffers,
                                       .receive_buffers = sizes.receive_buffers,
                                       .inline_bytes = inline_bytes}));
  RDMAXX_TRY(post_all(id.qp(), *resources));
  return resources;
}

result<void> stream_resources::create_qp(const cm_id& id, const stream_queue_sizes& sizes) const {
  cm_qp_config wanted{.pd = pd,
                      .send_cq = send_cq,
                      .recv_cq = recv_cq,
                      .capabilities = {.max_send_wr = sizes.send_buffers + small_sends,
                                       .max_recv_wr = sizes.receive_buffers,
                                       .max_send_sge = 2,
                                       .max_recv_sge = 1,
                                       .max_inline = sizes.inline_bytes},
                      .srq = srq};
  auto created = id.create_qp(wanted);
  if (!created && sizes.inline_bytes > 0) {
    wanted.capabilities.max_inline = 0;  // the device does not support this inline size
    created = id.create_qp(wanted);
  }
  return created;
}

std::span<std::byte> stream_resources::control_memory(std::size_t stream) const noexcept {
  return send_memory.bytes().subspan(stream * send_half::control_bytes, send_half::control_bytes);
}

}  // namespace RDMAXX_NAMESPACE::detail
