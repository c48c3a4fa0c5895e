#include <rdmaxx/stream/stream_listener.hpp>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "stream/stream_acceptor.hpp"
#include "stream/stream_connection.hpp"

namespace RDMAXX_NAMESPACE {

stream_listener::stream_listener(std::unique_ptr<detail::stream_acceptor> peers) noexcept
    : peers_(std::move(peers)) {}
stream_listener::stream_listener(stream_listener&&) noexcept = default;
stream_listener& stream_listener::operator=(stream_listener&&) noexcept = default;
stream_listener::~stream_listener() = default;

result<stream_listener> stream_listener::listen(std::string_view local,
                                                const stream_options& options) {
  RDMAXX_TRY(const auto addresses, socket_address::lookup(local));
  return listen(addresses.front(), options);
}

result<stream_listener> stream_listener::listen(const socket_address& local,
                                                const stream_options& options) {
  RDMAXX_TRY(options.check());
  RDMAXX_TRY(auto waiting, cm::listen(local, {.id = options.id}));
  RDMAXX_TRY(auto peers,
             detail::stream_acceptor::create(std::move(waiting), options, max_half_open));
  return stream_listener(std::move(peers));
}

result<stream> stream_listener::accept(std::optional<std::chrono::milliseconds> timeout) const {
  const auto deadline = detail::wait_end(timeout);
  for (;;) {
    RDMAXX_TRY(auto made, try_accept());
    if (made) return *std::move(made);
    if (timeout && library_clock::now() >= deadline) {
      return timed_out_error("accepting a stream", *timeout,
                             fmt::format("a peer on {}", describe(local_address())));
    }
    RDMAXX_TRY(peers_->wait(deadline));
  }
}

result<std::optional<stream>> stream_listener::try_accept() const {
  RDMAXX_TRY(auto next, peers_->try_next());
  if (next == nullptr) return std::nullopt;
  return stream(next);
}

socket_address stream_listener::local_address() const noexcept { return peers_->local_address(); }

int stream_listener::fd() const noexcept { return peers_->fd(); }

std::string describe(const stream_listener& waiting) {
  return fmt::format("stream_listener on {}", describe(waiting.local_address()));
}

}  // namespace RDMAXX_NAMESPACE
