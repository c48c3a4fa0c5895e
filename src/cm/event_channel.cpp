#include <rdmaxx/cm/event_channel.hpp>

#include <cerrno>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <rdmaxx/cm/cm_event.hpp>
#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/core/check.hpp>

#include "cm/cm_id_block.hpp"
#include "cm/device_context.hpp"
#include "cm/event_channel_block.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

cm_id handle_to(detail::cm_id_block* block) {
  return detail::handle_access::make<cm_id>(block->native, detail::reference(block));
}

}  // namespace

result<event_channel> event_channel::create() {
  auto* const native = rdma_create_event_channel();
  if (native == nullptr) {
    return errno_error("rdma_create_event_channel", errno, {},
                       errno == ENODEV || errno == ENOENT
                           ? "there is no RDMA device, or the kernel lacks `modprobe rdma_ucm`; "
                             "without one, run on a software device: `rdmaxx soft -- program`"
                           : "");
  }
  return adopt(native);
}

result<event_channel> event_channel::adopt(rdma_event_channel* native, adoption how) {
  if (native == nullptr) return misuse_error("event_channel::adopt", "the C channel is null");
  auto* const block = new detail::event_channel_block;
  detail::reference reference(block);
  block->native = native;
  block->adopted = std::move(how);
  RDMAXX_TRY(set_nonblocking(native->fd));
  return event_channel(native, std::move(reference));
}

result<cm_id> event_channel::create_id(port_space space) const {
  RDMAXX_TRY(detail::handle_access::check_process(*this, "rdma_create_id"));
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(live(), &id, nullptr, static_cast<rdma_port_space>(space)) != 0)
    return errno_error("rdma_create_id", errno, fmt::format("port space {}", describe(space)));
  return handle_to(new detail::cm_id_block(*this, id, {}));
}

result<cm_id> event_channel::adopt_id(rdma_cm_id* id, adoption how) const {
  if (id == nullptr) return misuse_error("adopt_id", "the C identifier is null");
  if (id->channel != live())
    return misuse_error("adopt_id", "the identifier reports to another channel");
  return handle_to(new detail::cm_id_block(*this, id, std::move(how)));
}

result<std::optional<cm_event>> event_channel::try_get_event() const {
  RDMAXX_TRY(detail::handle_access::check_process(*this, "rdma_get_cm_event"));
  auto& channel = detail::block_of(*this);
  for (;;) {
    // Released after the lock, which the destruction of an identifier takes.
    detail::reference new_id;
    const std::lock_guard lock(channel.mutex);
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(live(), &event) != 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
      if (errno == EINTR) continue;
      return errno_error("rdma_get_cm_event", errno);
    }
    const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    if (request) new_id = detail::reference(new detail::cm_id_block(*this, event->id, {}));
    if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
      detail::forget_device_context(event->id->verbs);
    auto subject = channel.ids.find(request ? event->listen_id : event->id);
    if (subject) return cm_event(event, std::move(*subject), std::move(new_id));
    // Its last handle has just been destroyed, and rdma_destroy_id waits in another thread for this
    // acknowledgement.
    rdma_ack_cm_event(event);
  }
}

result<cm_event> event_channel::get_event(std::optional<std::chrono::milliseconds> timeout) const {
  return wait_for_event(
      fd(), timeout, [this] { return try_get_event(); },
      [this](std::chrono::milliseconds waited) {
        return timed_out_error("event_channel::get_event", waited,
                               fmt::format("a connection manager event on fd {}", fd()));
      });
}

std::string describe(const event_channel& channel) {
  if (!channel) return "event_channel (empty)";
  return fmt::format("event_channel fd {}", channel.fd());
}

}  // namespace RDMAXX_NAMESPACE
