#include <rdmaxx/cm/cm_event.hpp>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <rdmaxx/cm/reject_reason.hpp>

#include "cm/cm_id_block.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

detail::cm_id_block* id_block(const detail::reference& block) noexcept {
  // An event always refers to an identifier's block.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-static-cast-downcast)
  return static_cast<detail::cm_id_block*>(block.get());
}

/// The step that the event ends.
std::string_view step_of(cm_event_type type) noexcept {
  switch (type) {
    case cm_event_type::addr_resolved:
    case cm_event_type::addr_error:
      return "resolving the address";
    case cm_event_type::route_resolved:
    case cm_event_type::route_error:
      return "resolving the route";
    case cm_event_type::multicast_join:
    case cm_event_type::multicast_error:
      return "joining the multicast group";
    default:
      return "connecting";
  }
}

std::string hint_for(cm_event_type type, int errno_value) {
  if (errno_value == ENODEV && type == cm_event_type::addr_error)
    return "no RDMA device of this host reaches that address";
  if (errno_value == ETIMEDOUT && type == cm_event_type::unreachable)
    return "the host does not answer: check the address, and that RDMA works there";
  return {};
}

/// The SIDR status of a service (IBTA 12.11.2).
std::string_view service_status(int status) noexcept {
  switch (status) {
    case 1:
      return "no service listens on that port";
    case 2:
      return "the program there rejected the request";
    case 3:
      return "the service has no queue pair";
    case 4:
      return "the service has moved";
    case 5:
      return "the peer's connection manager has another version";
    default:
      return "the service was not found";
  }
}

error rejection(int status, std::span<const std::byte> said) {
  if (status <= 0) {
    // iWARP reports an errno; a rejection by the program and a port without a listener look the
    // same.
    return error({.operation = "connecting",
                  .code = {status == 0 ? ECONNREFUSED : std::abs(status), std::generic_category()},
                  .category = error_category::peer,
                  .problem = "the peer refused",
                  .hint = "nothing listens on that port, or the program there rejected the request",
                  .peer_data = {said.begin(), said.end()}});
  }
  const auto reason = static_cast<reject_reason>(status);
  return error({.operation = "connecting",
                .code = reason,
                .category = error_category::peer,
                .hint = std::string(hint(reason)),
                .peer_data = {said.begin(), said.end()}});
}

}  // namespace

std::string_view describe(cm_event_type type) noexcept {
  switch (type) {
    case cm_event_type::addr_resolved:
      return "addr_resolved";
    case cm_event_type::addr_error:
      return "addr_error";
    case cm_event_type::route_resolved:
      return "route_resolved";
    case cm_event_type::route_error:
      return "route_error";
    case cm_event_type::connect_request:
      return "connect_request";
    case cm_event_type::connect_response:
      return "connect_response";
    case cm_event_type::connect_error:
      return "connect_error";
    case cm_event_type::unreachable:
      return "unreachable";
    case cm_event_type::rejected:
      return "rejected";
    case cm_event_type::established:
      return "established";
    case cm_event_type::disconnected:
      return "disconnected";
    case cm_event_type::device_removal:
      return "device_removal";
    case cm_event_type::multicast_join:
      return "multicast_join";
    case cm_event_type::multicast_error:
      return "multicast_error";
    case cm_event_type::addr_change:
      return "addr_change";
    case cm_event_type::timewait_exit:
      return "timewait_exit";
  }
  return "unknown";
}

cm_event::cm_event(rdma_cm_event* native, detail::reference subject,
                   detail::reference new_id) noexcept
    : native_(native),
      subject_(std::move(subject)),
      new_id_(std::move(new_id)),
      type_(static_cast<cm_event_type>(native->event)),
      status_(native->status),
      datagram_(is_datagram(static_cast<port_space>(native->id->ps))) {
  if (subject_) id_block(subject_)->unacknowledged.fetch_add(1);
}

cm_event::cm_event(cm_event&& other) noexcept
    : native_(std::exchange(other.native_, nullptr)),
      subject_(std::move(other.subject_)),
      new_id_(std::move(other.new_id_)),
      type_(other.type_),
      status_(other.status_),
      datagram_(other.datagram_) {}

cm_event& cm_event::operator=(cm_event&& other) noexcept {
  std::swap(native_, other.native_);
  std::swap(subject_, other.subject_);
  std::swap(new_id_, other.new_id_);
  std::swap(type_, other.type_);
  std::swap(status_, other.status_);
  std::swap(datagram_, other.datagram_);
  return *this;
}

result<void> cm_event::outcome() const {
  switch (type_) {
    case cm_event_type::rejected:
      return rejection(status_, private_data());
    case cm_event_type::addr_error:
    case cm_event_type::route_error:
    case cm_event_type::connect_error:
    case cm_event_type::unreachable:
    case cm_event_type::multicast_error:
      break;
    default:
      if (status_ == 0) return {};
  }
  if (status_ > 0 && datagram_ && type_ == cm_event_type::unreachable) {
    return error({.operation = "asking for the service",
                  .code = std::make_error_code(std::errc::connection_refused),
                  .category = error_category::peer,
                  .problem = std::string(service_status(status_)),
                  .hint = "check the port, and that the server is running",
                  .peer_data = {private_data().begin(), private_data().end()}});
  }
  // -1 and 0 mean failures for which the C library has no number.
  const int errno_value = status_ == -1 || status_ == 0 ? EIO : std::abs(status_);
  return errno_error(step_of(type_), errno_value, std::string(describe(type_)),
                     hint_for(type_, errno_value));
}

bool cm_event::concerns(const cm_id& id) const noexcept {
  return subject_ && id_block(subject_)->native == id.native();
}

result<cm_id> cm_event::take_id() {
  if (!new_id_) {
    return misuse_error("take_id", fmt::format("a {} event has no identifier", describe(type_)),
                        "only a connect_request has one, and it can be taken once");
  }
  auto* const block = id_block(new_id_);
  return detail::handle_access::make<cm_id>(block->native, std::exchange(new_id_, {}));
}

std::span<const std::byte> cm_event::private_data() const noexcept {
  // The C library stores the pointer given to the join here.
  if (native_ == nullptr || type_ == cm_event_type::multicast_join ||
      type_ == cm_event_type::multicast_error)
    return {};
  const auto* const data =
      datagram_ ? native_->param.ud.private_data : native_->param.conn.private_data;
  const auto bytes =
      datagram_ ? native_->param.ud.private_data_len : native_->param.conn.private_data_len;
  return {static_cast<const std::byte*>(data), data != nullptr ? bytes : std::size_t{0}};
}

connection_parameters cm_event::parameters() const noexcept {
  if (native_ == nullptr) return {};
  if (datagram_) return {.private_data = private_data()};
  return connection_parameters::from_native(native_->param.conn);
}

rdmaxx::datagram_peer cm_event::datagram_peer() const noexcept {
  if (native_ == nullptr || !datagram_) return {};
  return rdmaxx::datagram_peer::from_native(native_->param.ud);
}

void cm_event::acknowledge() noexcept {
  if (native_ == nullptr) return;
  // Before the references are released: destroying the identifier waits for this acknowledgement.
  auto* const event = std::exchange(native_, nullptr);
  if (!subject_ || !subject_.get()->is_made_before_fork()) rdma_ack_cm_event(event);
  if (subject_) id_block(subject_)->unacknowledged.fetch_sub(1);
  subject_ = {};
  new_id_ = {};
}

std::string describe(const cm_event& event) {
  const auto outcome = event.outcome();
  if (outcome) return std::string(describe(event.type()));
  return fmt::format("{} ({})", describe(event.type()), outcome.error().code().message());
}

}  // namespace RDMAXX_NAMESPACE
