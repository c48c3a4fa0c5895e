#pragma once

// listener: accepts streams.
//
//   auto l = listener::bind("0.0.0.0:7471").value();
//   for (;;) serve(l.accept().value());
//
// What one peer does, or fails to do, is an error of category peer, and a server goes on: a peer
// that does not speak the protocol, or another version of it, is refused; one that has asked has
// stream_options::connect_timeout to come up. Nobody waits for it meanwhile: up to most_half_open
// peers may be on their way at once, and whoever is up first is accepted first. Beyond that,
// requests wait until one of those is up or given up.
//
// Lifetime: move-only; independent of its streams. Peers that nobody has accepted when it ends are
// refused. Threads: accept() and try_accept() from any threads.

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
class reception;
}

class listener {
 public:
  /// Peers that have asked and are not up yet.
  static constexpr std::size_t most_half_open = 16;

  /// Port 0 takes any free one, which local_addr() tells. The options are those of its streams.
  [[nodiscard]] static result<listener> bind(std::string_view local,
                                             const stream_options& options = {});
  [[nodiscard]] static result<listener> bind(const socket_address& local,
                                             const stream_options& options = {});

  listener(listener&&) noexcept;
  listener& operator=(listener&&) noexcept;
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  ~listener();

  /// The next stream; ETIMEDOUT (category retryable) when nobody came up in time, which has no
  /// other meaning here.
  [[nodiscard]] result<stream> accept(
      std::optional<std::chrono::milliseconds> timeout = forever) const;
  /// A stream that is up already; nothing if there is none. Never waits.
  [[nodiscard]] result<std::optional<stream>> try_accept() const;

  [[nodiscard]] socket_address local_addr() const noexcept;
  /// Readable when try_accept() has something to do.
  [[nodiscard]] int fd() const noexcept;

 private:
  explicit listener(std::unique_ptr<detail::reception> peers) noexcept;

  std::unique_ptr<detail::reception> peers_;
};
[[nodiscard]] std::string describe(const listener& waiting);

}  // namespace RDMAXX_NAMESPACE
