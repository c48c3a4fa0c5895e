#include <rdmaxx/verbs/async_event.hpp>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include <rdmaxx/core/check.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>
#include <rdmaxx/verbs/shared_receive_queue.hpp>

#include "context_block.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

enum class subject { device, port, queue_pair, completion_queue, other_queue };

subject subject_of(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return subject::completion_queue;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return subject::queue_pair;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
      return subject::port;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_WQ_FATAL:
      return subject::other_queue;
    case IBV_EVENT_DEVICE_FATAL:
      break;
  }
  return subject::device;
}

const void* object_of(const ibv_async_event& event) noexcept {
  switch (subject_of(event.event_type)) {
    case subject::queue_pair:
      return event.element.qp;
    case subject::completion_queue:
      return event.element.cq;
    case subject::other_queue:
      return event.element.srq;
    case subject::device:
    case subject::port:
      break;
  }
  return nullptr;
}

}  // namespace

std::string_view describe(async_event_type type) noexcept {
  switch (type) {
    case async_event_type::cq_error:
      return "cq_error";
    case async_event_type::qp_fatal:
      return "qp_fatal";
    case async_event_type::qp_request_error:
      return "qp_request_error";
    case async_event_type::qp_access_error:
      return "qp_access_error";
    case async_event_type::communication_established:
      return "communication_established";
    case async_event_type::send_queue_drained:
      return "send_queue_drained";
    case async_event_type::path_migrated:
      return "path_migrated";
    case async_event_type::path_migration_error:
      return "path_migration_error";
    case async_event_type::device_fatal:
      return "device_fatal";
    case async_event_type::port_active:
      return "port_active";
    case async_event_type::port_error:
      return "port_error";
    case async_event_type::lid_change:
      return "lid_change";
    case async_event_type::pkey_change:
      return "pkey_change";
    case async_event_type::sm_change:
      return "sm_change";
    case async_event_type::srq_error:
      return "srq_error";
    case async_event_type::srq_limit_reached:
      return "srq_limit_reached";
    case async_event_type::qp_last_wqe_reached:
      return "qp_last_wqe_reached";
    case async_event_type::client_reregister:
      return "client_reregister";
    case async_event_type::gid_change:
      return "gid_change";
    case async_event_type::wq_fatal:
      return "wq_fatal";
  }
  return "unknown";
}

async_event::async_event(async_event&& other) noexcept
    : native_(other.native_),
      context_(std::move(other.context_)),
      subject_(std::move(other.subject_)),
      pending_(std::exchange(other.pending_, false)) {}

async_event& async_event::operator=(async_event&& other) noexcept {
  std::swap(native_, other.native_);
  std::swap(context_, other.context_);
  std::swap(subject_, other.subject_);
  std::swap(pending_, other.pending_);
  return *this;
}

std::optional<std::uint8_t> async_event::port() const noexcept {
  if (subject_of(native_.event_type) != subject::port) return std::nullopt;
  return static_cast<std::uint8_t>(native_.element.port_num);
}

std::optional<qpn> async_event::queue_pair_number() const noexcept {
  if (!pending_ || subject_of(native_.event_type) != subject::queue_pair) return std::nullopt;
  return qpn(native_.element.qp->qp_num);
}

bool async_event::concerns(const queue_pair& qp) const noexcept {
  return pending_ && subject_of(native_.event_type) == subject::queue_pair &&
         native_.element.qp == qp.native();
}

bool async_event::concerns(const completion_queue& cq) const noexcept {
  return pending_ && subject_of(native_.event_type) == subject::completion_queue &&
         native_.element.cq == cq.native();
}

bool async_event::concerns(const shared_receive_queue& srq) const noexcept {
  return pending_ && subject_of(native_.event_type) == subject::other_queue &&
         native_.element.srq == srq.native();
}

void async_event::acknowledge() noexcept {
  if (!std::exchange(pending_, false)) return;
  // Before the reference is released: destroying the object waits for this acknowledgement.
  if (!detail::block_of(context_).is_made_before_fork()) ibv_ack_async_event(&native_);
  subject_ = {};
}

std::string describe(const async_event& event) {
  std::string text(describe(event.type()));
  if (const auto port = event.port()) text += fmt::format(" on port {}", *port);
  if (const auto number = event.queue_pair_number())
    text += fmt::format(" on queue pair {:#x}", number->value());
  if (event.context()) text += fmt::format(" of {}", event.context().device_name());
  return text;
}

result<async_event_queue> context::async_events() const {
  RDMAXX_TRY(set_nonblocking(live()->async_fd));
  return async_event_queue(*this);
}

result<std::optional<async_event>> async_event_queue::try_get_event() const {
  RDMAXX_TRY(detail::handle_access::check_process(context_, "ibv_get_async_event"));
  for (;;) {
    ibv_async_event native{};
    if (ibv_get_async_event(context_.native(), &native) != 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
      if (errno == EINTR) continue;
      return errno_error("ibv_get_async_event", errno);
    }
    const void* const object = object_of(native);
    auto block =
        object != nullptr ? detail::block_of(context_).objects.find(object) : detail::reference();
    if (block) return async_event(native, context_, std::move(*block));
    // Its last handle has just been destroyed, and its destruction waits in another thread for this
    // acknowledgement.
    ibv_ack_async_event(&native);
  }
}

result<async_event> async_event_queue::get_event(
    std::optional<std::chrono::milliseconds> timeout) const {
  return wait_for_event(
      fd(), timeout, [this] { return try_get_event(); },
      [this](std::chrono::milliseconds waited) {
        return timed_out_error("async_event_queue::get_event", waited,
                               fmt::format("an event of {}", context_.device_name()));
      });
}

std::string describe(const async_event_queue& events) {
  if (!events) return "async_event_queue (empty)";
  return fmt::format("async_event_queue fd {}", events.fd());
}

}  // namespace RDMAXX_NAMESPACE
