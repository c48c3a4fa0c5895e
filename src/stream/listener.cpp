#include <rdmaxx/stream/listener.hpp>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "cm/cause_of.hpp"
#include "stream/conversation_handle.hpp"
#include "stream/own_greeting.hpp"

namespace rdmaxx::inline v0 {

using stream_protocol::greeting;

result<listener> listener::bind(std::string_view local, const stream_options& options) {
  RDMAXX_TRY(const auto addresses, socket_address::lookup(local));
  return bind(addresses.front(), options);
}

result<listener> listener::bind(const socket_address& local, const stream_options& options) {
  RDMAXX_TRY(options.check());
  RDMAXX_TRY(auto waiting, cm::listen(local, {.id = options.id}));
  return listener(std::move(waiting), options);
}

result<stream> listener::accept(std::optional<std::chrono::milliseconds> timeout) const {
  RDMAXX_TRY(auto request, waiting_.get_request(timeout));
  if (!request) {
    return errno_error("accepting a stream", ETIMEDOUT,
                       fmt::format("nobody came to {}", describe(local_addr())));
  }
  return welcome(*std::move(request));
}

result<std::optional<stream>> listener::try_accept() const {
  RDMAXX_TRY(auto request, waiting_.try_get_request());
  if (!request) return std::nullopt;
  RDMAXX_TRY(auto made, welcome(*std::move(request)));
  return std::optional(std::move(made));
}

result<stream> listener::welcome(cm::connection_request request) const {
  const auto own = detail::own_greeting(options_);
  const auto peer = request.peer_address();
  const auto terms = [&]() -> result<stream_protocol::agreement> {
    RDMAXX_TRY(const auto theirs, greeting::from_bytes(request.peer_data()));
    return negotiate(own, theirs);
  }();
  if (!terms) {
    (void)std::move(request).reject(own.to_bytes());
    return terms.error().within(fmt::format("accepting a stream of {}", describe(peer)));
  }
  auto equipment = detail::stream_equipment::for_id(request.id(), options_);
  if (!equipment) {
    return detail::cause_of(equipment.error(), request.id())
        .within(fmt::format("accepting a stream of {}", describe(peer)));
  }
  const auto answered = answer(own, *terms).to_bytes();
  RDMAXX_TRY(auto connected, std::move(request).accept({.parameters = {.private_data = answered},
                                                        .timeout = options_.connect_timeout}));
  RDMAXX_TRY(auto made, detail::conversation::create(std::move(connected), *std::move(equipment),
                                                     *terms, options_));
  return stream(std::make_shared<detail::conversation_handle>(std::move(made)));
}

std::string describe(const listener& waiting) {
  return fmt::format("listener for streams on {}", describe(waiting.local_addr()));
}

}  // namespace rdmaxx::inline v0
