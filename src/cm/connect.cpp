#include <rdmaxx/cm/connect.hpp>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "cm/address_fallback.hpp"
#include "cm/connection_attempt.hpp"
#include "cm/missing_port.hpp"

namespace RDMAXX_NAMESPACE::cm {

namespace {

using detail::connection_attempt;

/// Adds the address, which the steps do not know, to the error.
error told(const error& failure, const connection_steps& at, const socket_address& peer) {
  const bool is_resolved = at.awaited() == cm_event_type::established;
  return failure.within(
      fmt::format("{} {}", is_resolved ? "connecting to" : "resolving", describe(peer)));
}

result<cm_id> new_id(port_space space, const cm_id_options& options) {
  RDMAXX_TRY(const auto channel, event_channel::create());
  RDMAXX_TRY(auto id, channel.create_id(space));
  RDMAXX_TRY(id.set(options));
  return id;
}

/// Takes the connection out of a successful attempt.
result<connection_attempt> finished(result<cm_id> id, connection_steps steps,
                                    std::chrono::milliseconds timeout,
                                    const connection_attempt::inputs& given) {
  if (!id) return told(id.error(), steps, given.peer);
  connection_attempt attempt(*std::move(id), std::move(steps), timeout);
  if (const auto outcome = attempt.finish(given); !outcome)
    return told(outcome.error(), attempt.steps(), given.peer);
  return attempt;
}

}  // namespace

result<cm_id> resolve(const socket_address& peer, const resolve_options& options) {
  RDMAXX_TRY(auto attempt,
             finished(new_id(options.space, options.id), connection_steps::to_resolve(),
                      options.timeout, {.source = options.source, .peer = peer}));
  return std::move(attempt).release();
}

result<cm_id> resolve(std::string_view peer, const resolve_options& options) {
  return detail::with_address_fallback(
      peer, options, &resolve_options::timeout,
      [](const socket_address& address, const auto& rest) { return resolve(address, rest); });
}

result<connection> connect(const socket_address& peer, const connect_options& options) {
  if (peer.port() == 0) return detail::missing_port_error(peer);
  RDMAXX_TRY(auto attempt, finished(new_id(port_space::tcp, options.id),
                                    connection_steps::to_connect(), options.timeout,
                                    {.source = options.source,
                                     .peer = peer,
                                     .qp = &options.qp,
                                     .parameters = &options.parameters}));
  return std::move(attempt).connected();
}

result<connection> connect(std::string_view peer, const connect_options& options) {
  return detail::with_address_fallback(
      peer, options, &connect_options::timeout,
      [](const socket_address& address, const auto& rest) { return connect(address, rest); });
}

result<connection> connect(cm_id resolved, const connection_parameters& parameters,
                           std::chrono::milliseconds timeout) {
  if (!resolved) return misuse_error("cm::connect", "the identifier is empty");
  const auto peer = resolved.peer_address();
  const cm_qp_config any{};
  RDMAXX_TRY(auto attempt, finished(std::move(resolved), connection_steps::from_resolved(), timeout,
                                    {.peer = peer, .qp = &any, .parameters = &parameters}));
  return std::move(attempt).connected();
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

}  // namespace RDMAXX_NAMESPACE::cm
