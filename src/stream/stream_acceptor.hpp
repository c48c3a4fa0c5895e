#pragma once

// stream_acceptor: the peers of a listener on their way from a request to a stream_connection.
//
// A request is answered as soon as it is seen, with a greeting or a rejection, and the peer then
// waits among the half_open_peers until it is established.
//
// Threads: any.

#include <cstddef>
#include <memory>
#include <optional>

#include <rdmaxx/cm/listener.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/greeting.hpp>
#include <rdmaxx/stream/stream_options.hpp>

#include "cm/half_open_peers.hpp"
#include "stream/stream_connection.hpp"
#include "stream/stream_endpoint.hpp"

namespace RDMAXX_NAMESPACE::detail {

class stream_acceptor {
 public:
  [[nodiscard]] static result<std::unique_ptr<stream_acceptor>> create(
      cm::listener waiting, const stream_options& options, std::size_t max_half_open);

  /// An established peer, or null; an error concerns one peer, unless its category says otherwise.
  [[nodiscard]] result<std::shared_ptr<stream_connection>> try_next();
  /// Waits until try_next() may have something to do, or the deadline has passed.
  [[nodiscard]] result<void> wait(library_clock::time_point deadline) {
    return peers_->wait(deadline);
  }

  [[nodiscard]] int fd() const noexcept { return peers_->fd(); }
  [[nodiscard]] socket_address local_address() const noexcept { return waiting_.local_address(); }

 private:
  /// What a peer gets when it is established.
  struct prepared {
    stream_endpoint endpoint;
    stream_protocol::agreement terms;
  };
  using peers = half_open_peers<prepared>;

  stream_acceptor(cm::listener waiting, stream_options options, std::unique_ptr<peers> half_open);

  /// Answers the next pending request.
  [[nodiscard]] result<std::optional<peers::peer>> answered() const;
  [[nodiscard]] result<peers::peer> answer_to(cm::connection_request request) const;

  cm::listener waiting_;
  const stream_options options_;
  std::unique_ptr<peers> peers_;  ///< watches the listener, and is destroyed before it
};

}  // namespace RDMAXX_NAMESPACE::detail
