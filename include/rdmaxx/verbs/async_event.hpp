#pragma once

// async_event_queue, async_event: asynchronous events of a device.
//
//   auto events = ctx.async_events().value();
//   auto event = events.get_event(1s).value();      // std::errc::timed_out after 1 s
//   fmt::print("{}\n", event);                      // "port_error on port 1 of rxe0"
//
// An event acknowledges itself when it is destroyed and keeps the object it is about alive until
// then; so an object can be destroyed while an event about it is being handled, even by the same
// thread.
//
// Threads: get_event() and try_get_event() may be called from several threads; each event goes to
// one of them. The events of a device are shared by all copies of its context. The descriptor is
// non-blocking.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/context.hpp>

namespace RDMAXX_NAMESPACE {

class completion_queue;
class queue_pair;
class shared_receive_queue;

enum class async_event_type : std::uint8_t {
  cq_error = IBV_EVENT_CQ_ERR,  ///< a completion queue overflowed
  qp_fatal = IBV_EVENT_QP_FATAL,
  qp_request_error = IBV_EVENT_QP_REQ_ERR,
  qp_access_error = IBV_EVENT_QP_ACCESS_ERR,
  communication_established = IBV_EVENT_COMM_EST,
  send_queue_drained = IBV_EVENT_SQ_DRAINED,
  path_migrated = IBV_EVENT_PATH_MIG,
  path_migration_error = IBV_EVENT_PATH_MIG_ERR,
  device_fatal = IBV_EVENT_DEVICE_FATAL,
  port_active = IBV_EVENT_PORT_ACTIVE,
  port_error = IBV_EVENT_PORT_ERR,
  lid_change = IBV_EVENT_LID_CHANGE,
  pkey_change = IBV_EVENT_PKEY_CHANGE,
  sm_change = IBV_EVENT_SM_CHANGE,
  srq_error = IBV_EVENT_SRQ_ERR,
  srq_limit_reached = IBV_EVENT_SRQ_LIMIT_REACHED,
  qp_last_wqe_reached = IBV_EVENT_QP_LAST_WQE_REACHED,
  client_reregister = IBV_EVENT_CLIENT_REREGISTER,
  gid_change = IBV_EVENT_GID_CHANGE,
  wq_fatal = IBV_EVENT_WQ_FATAL,
};
[[nodiscard]] std::string_view describe(async_event_type type) noexcept;

class [[nodiscard]] async_event {
 public:
  async_event(async_event&& other) noexcept;
  async_event& operator=(async_event&& other) noexcept;
  async_event(const async_event&) = delete;
  async_event& operator=(const async_event&) = delete;
  ~async_event() { acknowledge(); }

  [[nodiscard]] async_event_type type() const noexcept {
    return async_event_type(native_.event_type);
  }
  [[nodiscard]] const rdmaxx::context& context() const noexcept { return context_; }

  /// The port the event is about, if it is about one.
  [[nodiscard]] std::optional<std::uint8_t> port() const noexcept;
  /// The number of the queue pair the event is about, if it is about one.
  [[nodiscard]] std::optional<qpn> queue_pair_number() const noexcept;
  [[nodiscard]] bool concerns(const queue_pair& qp) const noexcept;
  [[nodiscard]] bool concerns(const completion_queue& cq) const noexcept;
  [[nodiscard]] bool concerns(const shared_receive_queue& srq) const noexcept;

  /// Acknowledges now instead of in the destructor. type() and port() stay valid; the object may be
  /// destroyed.
  void acknowledge() noexcept;

  [[nodiscard]] const ibv_async_event& native() const noexcept { return native_; }

 private:
  friend class async_event_queue;
  async_event(const ibv_async_event& native, rdmaxx::context ctx,
              detail::reference subject) noexcept
      : native_(native), context_(std::move(ctx)), subject_(std::move(subject)), pending_(true) {}

  ibv_async_event native_{};
  rdmaxx::context context_;
  detail::reference subject_;
  bool pending_ = false;
};
[[nodiscard]] std::string describe(const async_event& event);

class async_event_queue {
 public:
  async_event_queue() noexcept = default;

  explicit operator bool() const noexcept { return static_cast<bool>(context_); }
  [[nodiscard]] int fd() const noexcept { return context_.native()->async_fd; }
  /// The next event, or nothing if there is none now.
  [[nodiscard]] result<std::optional<async_event>> try_get_event() const;
  /// The next event; ETIMEDOUT if there is none in time.
  [[nodiscard]] result<async_event> get_event(
      std::optional<std::chrono::milliseconds> timeout = forever) const;

 private:
  friend class context;
  explicit async_event_queue(rdmaxx::context ctx) noexcept : context_(std::move(ctx)) {}

  rdmaxx::context context_;
};
[[nodiscard]] std::string describe(const async_event_queue& events);

}  // namespace RDMAXX_NAMESPACE
