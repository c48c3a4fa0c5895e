#include "stream/stream_acceptor.hpp"

#include <utility>

#include <rdmaxx/cm/connection_steps.hpp>

#include "cm/accept_failure.hpp"
#include "stream/own_greeting.hpp"

namespace RDMAXX_NAMESPACE::detail {

using stream_protocol::greeting;

result<std::unique_ptr<stream_acceptor>> stream_acceptor::create(cm::listener waiting,
                                                                 const stream_options& options,
                                                                 std::size_t max_half_open) {
  RDMAXX_TRY(auto half_open, peers::create(waiting.fd(), max_half_open, "accepting a stream of"));
  return std::unique_ptr<stream_acceptor>(
      new stream_acceptor(std::move(waiting), options, std::move(half_open)));
}

stream_acceptor::stream_acceptor(cm::listener waiting, stream_options options,
                                 std::unique_ptr<peers> half_open)
    : waiting_(std::move(waiting)), options_(std::move(options)), peers_(std::move(half_open)) {}

result<stream_acceptor::peers::peer> stream_acceptor::answer_to(
    cm::connection_request request) const {
  auto own = own_greeting(options_);
  auto terms = [&]() -> result<stream_protocol::agreement> {
    RDMAXX_TRY(const auto theirs, greeting::from_bytes(request.peer_data()));
    return negotiate(own, theirs);
  }();
  if (!terms) {
    (void)std::move(request).reject(own.to_bytes());
    return terms.error();
  }
  auto endpoint = stream_endpoint::for_id(request.id(), options_);
  if (!endpoint) return accept_failure(endpoint.error(), request.id());
  own.window = terms->own = endpoint->window();
  const auto reply = answer(own, *terms).to_bytes();
  const connection_parameters parameters{.private_data = reply};
  connection_attempt attempt(std::move(request).release(), connection_steps::to_accept(),
                             options_.connect_timeout);
  const cm_qp_config none{};  // the identifier has its queue pair
  RDMAXX_TRY(attempt.start({.qp = &none, .parameters = &parameters}));
  return peers::peer{.extra = {.endpoint = *std::move(endpoint), .terms = *terms},
                     .attempt = std::move(attempt)};
}

result<std::optional<stream_acceptor::peers::peer>> stream_acceptor::answered() const {
  RDMAXX_TRY(auto request, waiting_.try_get_request());
  if (!request) return std::nullopt;
  const auto address = request->peer_address();
  auto peer = answer_to(*std::move(request));
  if (!peer) return peers_->told_of(peer.error(), address);
  return std::optional(*std::move(peer));
}

result<std::shared_ptr<stream_connection>> stream_acceptor::try_next() {
  RDMAXX_TRY(auto next, peers_->try_next([this] { return answered(); }));
  if (!next) return nullptr;
  return stream_connection::create(
      std::move(next->extra.endpoint).connected(std::move(next->connection)), next->extra.terms,
      options_);
}

}  // namespace RDMAXX_NAMESPACE::detail
