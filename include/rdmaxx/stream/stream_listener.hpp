#pragma once

// stream_listener: accepts streams.
//
//   auto l = stream_listener::listen("0.0.0.0:7471").value();
//   for (;;) serve(l.accept().value());
//
// Anything that a single peer does wrong, or too late, is an error of category peer, after which a
// server carries on: a peer that does not speak the protocol, or speaks another version of it, is
// rejected; one that was answered has stream_options::connect_timeout to establish the connection.
// A slow peer delays no other: up to max_half_open may be half-open at once, and streams are
// accepted in the order in which they are established. Further requests wait until one of those is
// done or timed out.
//
// Lifetime: move-only; independent of its streams. Destroying it rejects peers that have not been
// accepted. Threads: accept() and try_accept() from any threads.

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <rdmaxx/cm/listener.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/stream.hpp>
#include <rdmaxx/stream/stream_options.hpp>

namespace RDMAXX_NAMESPACE {

namespace detail {
class stream_acceptor;
}

class stream_listener {
 public:
  /// Peers that were answered but are not established yet.
  static constexpr std::size_t max_half_open = 16;

  /// Port 0 means any free port, which local_address() returns. The options apply to its streams.
  [[nodiscard]] static result<stream_listener> listen(std::string_view local,
                                                      const stream_options& options = {});
  [[nodiscard]] static result<stream_listener> listen(const socket_address& local,
                                                      const stream_options& options = {});

  stream_listener(stream_listener&&) noexcept;
  stream_listener& operator=(stream_listener&&) noexcept;
  stream_listener(const stream_listener&) = delete;
  stream_listener& operator=(const stream_listener&) = delete;
  ~stream_listener();

  /// The next stream; ETIMEDOUT (category retryable) if there is none in time, and only then.
  [[nodiscard]] result<stream> accept(
      std::optional<std::chrono::milliseconds> timeout = forever) const;
  /// An established stream; nothing if there is none. Never waits.
  [[nodiscard]] result<std::optional<stream>> try_accept() const;

  [[nodiscard]] socket_address local_address() const noexcept;
  /// Readable when try_accept() has something to do.
  [[nodiscard]] int fd() const noexcept;

 private:
  explicit stream_listener(std::unique_ptr<detail::stream_acceptor> peers) noexcept;

  std::unique_ptr<detail::stream_acceptor> peers_;
};
[[nodiscard]] std::string describe(const stream_listener& waiting);

}  // namespace RDMAXX_NAMESPACE
