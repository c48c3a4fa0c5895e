#include <rdmaxx/cm/listener.hpp>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "cm/accept_failure.hpp"
#include "cm/awaited_event.hpp"
#include "cm/while_busy.hpp"

namespace rdmaxx::inline v0::cm {

namespace {

result<connection_request> separated(cm_event& event) {
  RDMAXX_TRY(auto id, event.take_id());
  RDMAXX_TRY(const auto channel, event_channel::create());
  RDMAXX_TRY(detail::while_busy([&] { return id.migrate(channel); }));
  return connection_request(std::move(id), event);
}

result<void> answer(const cm_id& id, const accept_options& options) {
  if (!id.qp() && options.parameters.queue_pair == qpn{}) RDMAXX_TRY(id.create_qp(options.qp));
  return id.accept(options.parameters);
}

result<connection> accept_steps(cm_id id, const accept_options& options) {
  const auto end = deadline_after(options.timeout);
  if (const auto answered = answer(id, options); !answered)
    return detail::accept_failure(answered.error(), id);
  const auto established = detail::awaited_event(id, cm_event_type::established, end);
  if (!established) return detail::peers_failure(established.error());
  return connection(std::move(id), *established);
}

result<listener> listen_steps(const socket_address& local, const listen_options& options) {
  RDMAXX_TRY(const auto channel, event_channel::create());
  RDMAXX_TRY(auto id, channel.create_id(port_space::tcp));
  RDMAXX_TRY(id.set(options.id));
  RDMAXX_TRY(id.bind(local));
  RDMAXX_TRY(id.listen(options.backlog));
  return listener(std::move(id));
}

result<std::optional<connection>> accepted(result<std::optional<connection_request>> request,
                                           accept_options options, detail::deadline end) {
  RDMAXX_TRY(auto waiting, std::move(request));
  if (!waiting) return std::nullopt;
  options.timeout = detail::time_until(end);
  RDMAXX_TRY(auto connected, std::move(*waiting).accept(options));
  return std::optional(std::move(connected));
}

}  // namespace

connection_request::connection_request(cm_id id, const cm_event& request)
    : id_(std::move(id)),
      peer_data_(request.private_data().begin(), request.private_data().end()),
      parameters_(request.parameters()) {
  parameters_.private_data = {};
}

connection_parameters connection_request::parameters() const noexcept {
  auto offered = parameters_;
  offered.private_data = peer_data_;
  return offered;
}

result<connection> connection_request::accept(const accept_options& options) && {
  const auto peer = peer_address();
  auto connected = accept_steps(std::move(id_), options);
  if (connected) return connected;
  return connected.error().within(fmt::format("accepting {}", describe(peer)));
}

result<void> connection_request::reject(std::span<const std::byte> private_data) && {
  const auto id = std::move(id_);
  return id.reject(private_data);
}

result<std::optional<connection_request>> listener::try_get_request() const {
  for (;;) {
    RDMAXX_TRY(auto event, id_.channel().try_get_event());
    if (!event) return std::nullopt;
    if (event->type() == cm_event_type::connect_request) {
      RDMAXX_TRY(auto request, separated(*event));
      return std::optional(std::move(request));
    }
    if (event->type() == cm_event_type::device_removal)
      return errno_error("listening", ENODEV, describe(local_address()));
  }
}

result<std::optional<connection_request>> listener::get_request(
    std::optional<std::chrono::milliseconds> timeout) const {
  return wait_for_event(fd(), timeout, [this] { return try_get_request(); });
}

result<std::optional<connection>> listener::accept(const accept_options& options) const {
  const auto end = deadline_after(options.timeout);
  return accepted(get_request(options.timeout), options, end);
}

result<std::optional<connection>> listener::try_accept(const accept_options& options) const {
  return accepted(try_get_request(), options, deadline_after(options.timeout));
}

result<listener> listen(const socket_address& local, const listen_options& options) {
  auto made = listen_steps(local, options);
  if (made) return made;
  return made.error().within(fmt::format("listening on {}", describe(local)));
}

result<listener> listen(std::string_view local, const listen_options& options) {
  RDMAXX_TRY(const auto addresses, socket_address::lookup(local));
  return listen(addresses.front(), options);
}

std::string describe(const accept_options& options) {
  return fmt::format("timeout {} ms, {}, {}", options.timeout.count(), describe(options.qp),
                     describe(options.parameters));
}

std::string describe(const connection_request& request) {
  return fmt::format("request of {}", describe(request.peer_address()));
}

std::string describe(const listen_options& options) {
  return fmt::format("backlog {}, {}", options.backlog, describe(options.id));
}

std::string describe(const listener& waiting) {
  if (!waiting) return "listener (empty)";
  return fmt::format("listener on {}", describe(waiting.local_address()));
}

}  // namespace rdmaxx::inline v0::cm
