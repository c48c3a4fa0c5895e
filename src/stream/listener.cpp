#include <rdmaxx/stream/listener.hpp>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "stream/reception.hpp"
#include "stream/stream_connection.hpp"

namespace RDMAXX_NAMESPACE {

listener::listener(std::unique_ptr<detail::reception> peers) noexcept : peers_(std::move(peers)) {}
listener::listener(listener&&) noexcept = default;
listener& listener::operator=(listener&&) noexcept = default;
listener::~listener() = default;

result<listener> listener::bind(std::string_view local, const stream_options& options) {
  RDMAXX_TRY(const auto addresses, socket_address::lookup(local));
  return bind(addresses.front(), options);
}

result<listener> listener::bind(const socket_address& local, const stream_options& options) {
  RDMAXX_TRY(options.check());
  RDMAXX_TRY(auto waiting, cm::listen(local, {.id = options.id}));
  RDMAXX_TRY(auto peers, detail::reception::create(std::move(waiting), options, most_half_open));
  return listener(std::move(peers));
}

result<stream> listener::accept(std::optional<std::chrono::milliseconds> timeout) const {
  const auto deadline = timeout ? deadline_after(*timeout) : library_clock::time_point::max();
  for (;;) {
    RDMAXX_TRY(auto made, try_accept());
    if (made) return *std::move(made);
    if (library_clock::now() >= deadline) {
      return errno_error("accepting a stream", ETIMEDOUT,
                         fmt::format("nobody came to {}", describe(local_addr())));
    }
    RDMAXX_TRY(peers_->wait(deadline));
  }
}

result<std::optional<stream>> listener::try_accept() const {
  RDMAXX_TRY(auto next, peers_->try_next());
  if (next == nullptr) return std::nullopt;
  return stream(next);
}

socket_address listener::local_addr() const noexcept { return peers_->local_address(); }

int listener::fd() const noexcept { return peers_->fd(); }

std::string describe(const listener& waiting) {
  return fmt::format("listener for streams on {}", describe(waiting.local_addr()));
}

}  // namespace RDMAXX_NAMESPACE
