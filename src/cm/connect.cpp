#include <rdmaxx/cm/connect.hpp>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "cm/awaited_event.hpp"
#include "cm/first_success.hpp"
#include "cm/no_port.hpp"

namespace rdmaxx::inline v0::cm {

namespace {

using detail::deadline;

/// The steps do not know where they lead; the error must.
template <class T>
result<T> told(result<T> outcome, std::string_view action, const socket_address& peer) {
  if (outcome) return outcome;
  return outcome.error().within(fmt::format("{} {}", action, describe(peer)));
}

result<cm_id> resolve_steps(const socket_address& peer, const resolve_options& options,
                            deadline end) {
  RDMAXX_TRY(const auto channel, event_channel::create());
  RDMAXX_TRY(auto id, channel.create_id(options.space));
  RDMAXX_TRY(id.set(options.id));
  RDMAXX_TRY(id.resolve_addr(options.source, peer, detail::time_until(end)));
  RDMAXX_TRY(detail::awaited_event(id, cm_event_type::addr_resolved, end));
  RDMAXX_TRY(id.resolve_route(detail::time_until(end)));
  RDMAXX_TRY(detail::awaited_event(id, cm_event_type::route_resolved, end));
  return id;
}

result<connection> connect_steps(cm_id id, const cm_qp_config& config,
                                 const connection_parameters& parameters, deadline end) {
  if (!id.qp()) RDMAXX_TRY(id.create_qp(config));
  RDMAXX_TRY(id.connect(parameters));
  RDMAXX_TRY(const auto established, detail::awaited_event(id, cm_event_type::established, end));
  return connection(std::move(id), established);
}

}  // namespace

result<cm_id> resolve(const socket_address& peer, const resolve_options& options) {
  return told(resolve_steps(peer, options, deadline_after(options.timeout)), "resolving", peer);
}

result<cm_id> resolve(std::string_view peer, const resolve_options& options) {
  return detail::first_success(
      peer, options, &resolve_options::timeout,
      [](const socket_address& address, const auto& rest) { return resolve(address, rest); });
}

result<connection> connect(const socket_address& peer, const connect_options& options) {
  if (peer.port() == 0) return detail::no_port_error(peer);
  const auto end = deadline_after(options.timeout);
  auto id = told(resolve_steps(peer, {.source = options.source, .id = options.id}, end),
                 "resolving", peer);
  if (!id) return id.error();
  return told(connect_steps(std::move(*id), options.qp, options.parameters, end), "connecting to",
              peer);
}

result<connection> connect(std::string_view peer, const connect_options& options) {
  return detail::first_success(
      peer, options, &connect_options::timeout,
      [](const socket_address& address, const auto& rest) { return connect(address, rest); });
}

result<connection> connect(cm_id resolved, const connection_parameters& parameters,
                           std::chrono::milliseconds timeout) {
  if (!resolved) return misuse_error("cm::connect", "the identifier is empty");
  const auto peer = resolved.peer_address();
  return told(connect_steps(std::move(resolved), {}, parameters, deadline_after(timeout)),
              "connecting to", peer);
}

std::string describe(const resolve_options& options) {
  return fmt::format("source {} port space {} timeout {} ms, {}", describe(options.source),
                     describe(options.space), options.timeout.count(), describe(options.id));
}

std::string describe(const connect_options& options) {
  return fmt::format("source {} timeout {} ms, {}, {}, {}", describe(options.source),
                     options.timeout.count(), describe(options.id), describe(options.qp),
                     describe(options.parameters));
}

}  // namespace rdmaxx::inline v0::cm
