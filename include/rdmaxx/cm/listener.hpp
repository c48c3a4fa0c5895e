#pragma once

// cm::listener: waits for peers that want to connect.
//
//   auto l = cm::listen("0.0.0.0:7471").value();
//   auto c = l.accept({.timeout = 5s}).value();            // std::errc::timed_out after 5 s
//
// In steps, to decide by the peer's private data, or to choose the queue pair's completion queues:
//
//   auto request = l.get_request(5s).value();
//   if (!welcome(request.peer_data())) std::move(request).reject(why).value();
//   request.id().create_qp({.pd = …}).value();
//   request.id().qp().post(recv_wr{…}).value();
//   auto c = std::move(request).accept({.parameters = {.private_data = hello}}).value();
//
// accept() answers requests as they arrive and returns connections in the order in which they are
// established: a slow peer delays no other. Up to max_half_open peers may be half-open at once;
// further requests wait until one of those is established or has timed out. Anything that a single
// peer does wrong, or too late, is an error of category peer, after which a server carries on.
//
// A request, and so every connection, has an event channel of its own. Destroying a request that
// was neither accepted nor rejected rejects it; destroying the listener rejects all pending
// requests.
//
// Lifetime: move-only; its connections do not depend on it. Threads: all members except assignment,
// from any threads; each request and each connection goes to one of them.

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rdmaxx/cm/cm_event.hpp>
#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/cm/connect.hpp>
#include <rdmaxx/cm/connection.hpp>
#include <rdmaxx/cm/connection_parameters.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE::cm {

struct accept_options {
  cm_qp_config qp{};  ///< used if the request's identifier has no queue pair yet
  connection_parameters parameters{};
  /// Until the connection is established. listener::accept() waits this long for any connection;
  /// each peer that it has answered has the same time to itself, even after that call has returned.
  std::chrono::milliseconds timeout = default_timeout;
};
[[nodiscard]] std::string describe(const accept_options& options);

/// A peer wants to connect. Move-only; one thread at a time.
class [[nodiscard]] connection_request {
 public:
  connection_request(cm_id id, const cm_event& request);

  [[nodiscard]] const cm_id& id() const noexcept { return id_; }
  /// The private data of the request, perhaps padded with zeros.
  [[nodiscard]] std::span<const std::byte> peer_data() const noexcept { return peer_data_; }
  /// What the peer offers; its private_data is peer_data().
  [[nodiscard]] connection_parameters parameters() const noexcept;
  [[nodiscard]] socket_address peer_address() const noexcept { return id_.peer_address(); }

  /// Anything that the peer does wrong, or too late, is an error of category peer.
  [[nodiscard]] result<connection> accept(const accept_options& options = {}) &&;
  [[nodiscard]] result<void> reject(std::span<const std::byte> private_data = {}) &&;
  /// Releases the request's identifier, for code that accepts in steps of its own.
  [[nodiscard]] cm_id release() && { return std::move(id_); }

 private:
  cm_id id_;
  std::vector<std::byte> peer_data_;
  connection_parameters parameters_;
};
[[nodiscard]] std::string describe(const connection_request& request);

struct listen_options {
  int backlog = 128;  ///< requests that may wait to be fetched
  cm_id_options id{};
};
[[nodiscard]] std::string describe(const listen_options& options);

class listener {
 public:
  /// Peers that accept() has answered but that are not established yet.
  static constexpr std::size_t max_half_open = 16;

  listener() noexcept;
  /// Takes a listening identifier that has a channel of its own.
  [[nodiscard]] static result<listener> from(cm_id listening);
  listener(listener&&) noexcept;
  listener& operator=(listener&&) noexcept;
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  ~listener();

  explicit operator bool() const noexcept { return static_cast<bool>(id_); }
  [[nodiscard]] const cm_id& id() const noexcept { return id_; }
  /// With the real port, if port 0 was requested.
  [[nodiscard]] socket_address local_address() const noexcept { return id_.local_address(); }
  /// Readable when try_get_request() or try_accept() has something to do: a request is pending and
  /// there is room for it, or an answered peer is established, has failed or timed out.
  [[nodiscard]] int fd() const noexcept;

  /// The next request, or nothing if there is none now.
  [[nodiscard]] result<std::optional<connection_request>> try_get_request() const;
  /// The next request; ETIMEDOUT if there is none in time.
  [[nodiscard]] result<connection_request> get_request(
      std::optional<std::chrono::milliseconds> timeout = forever) const;

  /// The next connection; ETIMEDOUT (category retryable) if there is none in time, and only then.
  /// Answers requests with its options.
  [[nodiscard]] result<connection> accept(const accept_options& options = {}) const;
  /// An established connection; nothing if there is none. Answers requests, and never waits.
  [[nodiscard]] result<std::optional<connection>> try_accept(
      const accept_options& options = {}) const;

 private:
  class acceptance;

  listener(cm_id listening, std::unique_ptr<acceptance> peers) noexcept;

  cm_id id_;
  std::unique_ptr<acceptance> peers_;  ///< that were answered; destroyed before the identifier
};
[[nodiscard]] std::string describe(const listener& waiting);

[[nodiscard]] result<listener> listen(const socket_address& local,
                                      const listen_options& options = {});
/// Looks up a name and uses its first address.
[[nodiscard]] result<listener> listen(std::string_view local, const listen_options& options = {});

}  // namespace RDMAXX_NAMESPACE::cm
