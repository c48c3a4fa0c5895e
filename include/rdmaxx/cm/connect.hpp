#pragma once

// cm::connect: from an address to a connected queue pair in one call.
//
//   auto c = cm::connect("server.example.org:7471", {.timeout = 5s}).value();
//
// In steps, to choose the queue pair's completion queues, or to post receives before the peer can
// send:
//
//   auto id = cm::resolve("10.0.0.7:7471").value();                  // knows its device now
//   auto pd = id.context().value().alloc_pd().value();
//   id.create_qp({.pd = pd}).value();
//   id.qp().post(recv_wr{…}).value();
//   auto c = cm::connect(std::move(id), {.private_data = hello}, 5s).value();
//
// Errors say which step failed. The error of a rejected connection has the reason as its code (see
// cm/reject_reason.hpp) and the peer's private data as its peer_data(). The timeout includes the
// name lookup; if a name has several addresses, they are tried in turn, and the last failure is
// reported. If an iWARP peer stays silent, a timeout lasts until the identifier is destroyed (see
// cm/cm_id.hpp).

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/cm/connection.hpp>
#include <rdmaxx/cm/connection_parameters.hpp>
#include <rdmaxx/cm/port_space.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE::cm {

inline constexpr std::chrono::milliseconds default_timeout = std::chrono::seconds(10);

struct resolve_options {
  socket_address source{};  ///< the local address to use; chosen by the routing table if empty
  cm_id_options id{};
  port_space space = port_space::tcp;
  std::chrono::milliseconds timeout = default_timeout;  ///< for all steps together
};
[[nodiscard]] std::string describe(const resolve_options& options);

/// An identifier with a channel of its own, its device and the route to the peer.
[[nodiscard]] result<cm_id> resolve(const socket_address& peer,
                                    const resolve_options& options = {});
[[nodiscard]] result<cm_id> resolve(std::string_view peer, const resolve_options& options = {});

struct connect_options {
  socket_address source{};
  cm_id_options id{};
  cm_qp_config qp{};
  connection_parameters parameters{};
  std::chrono::milliseconds timeout = default_timeout;  ///< for all steps together
};
[[nodiscard]] std::string describe(const connect_options& options);

[[nodiscard]] result<connection> connect(const socket_address& peer,
                                         const connect_options& options = {});
[[nodiscard]] result<connection> connect(std::string_view peer,
                                         const connect_options& options = {});
/// The last step: connects an identifier from resolve(). It gets a queue pair if it has none. On
/// failure it is destroyed.
[[nodiscard]] result<connection> connect(cm_id resolved,
                                         const connection_parameters& parameters = {},
                                         std::chrono::milliseconds timeout = default_timeout);

}  // namespace RDMAXX_NAMESPACE::cm
