#pragma once

// listener: accepts streams.
//
//   auto l = listener::bind("0.0.0.0:7471").value();
//   for (;;) serve(l.accept().value());
//
// A peer that does not speak the protocol, or another version of it, is refused, and accept() says
// so with an error of category peer: a server goes on.
//
// Lifetime: move-only; independent of its streams. Peers that nobody has accepted when it ends are
// refused. Threads: accept() and try_accept() from any threads.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <rdmaxx/cm/listener.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/stream.hpp>
#include <rdmaxx/stream/stream_options.hpp>

namespace rdmaxx::inline v0 {

class listener {
 public:
  /// Port 0 takes any free one, which local_addr() tells. The options are those of its streams.
  [[nodiscard]] static result<listener> bind(std::string_view local,
                                             const stream_options& options = {});
  [[nodiscard]] static result<listener> bind(const socket_address& local,
                                             const stream_options& options = {});

  /// The next stream; ETIMEDOUT when nobody came in time. A peer that has asked has
  /// stream_options::connect_timeout to come up.
  [[nodiscard]] result<stream> accept(
      std::optional<std::chrono::milliseconds> timeout = forever) const;
  /// The stream of a peer that waits already; nothing if none does. It too may take
  /// stream_options::connect_timeout to come up.
  [[nodiscard]] result<std::optional<stream>> try_accept() const;

  [[nodiscard]] socket_address local_addr() const noexcept { return waiting_.local_address(); }
  /// Readable when a peer waits.
  [[nodiscard]] int fd() const noexcept { return waiting_.fd(); }

 private:
  listener(cm::listener waiting, const stream_options& options)
      : waiting_(std::move(waiting)), options_(options) {}
  [[nodiscard]] result<stream> welcome(cm::connection_request request) const;

  cm::listener waiting_;
  stream_options options_;
};
[[nodiscard]] std::string describe(const listener& waiting);

}  // namespace rdmaxx::inline v0
