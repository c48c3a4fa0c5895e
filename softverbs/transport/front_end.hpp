// What a queue pair of the transport needs from whoever drives it.
//
// The verbs objects of softverbs are one front end; the rings of an emulated adapter are another
// (tests/softverbs/transport/ring_adapter.hpp is the smallest that moves bytes). A front end puts
// send requests into the queue pair's send queue, hands in packets that it has checked to come from
// the peer, calls when a deadline has passed, and gets what is declared here.
//
// All functions are called by the queue pair while its caller is in one of its functions, with
// whatever lock the caller holds. None of them may call the queue pair.
#pragma once

#include <cstdint>

#include <base/clock.hpp>
#include <transport/memory_domain.hpp>
#include <transport/packet_sink.hpp>
#include <transport/receive_queue.hpp>
#include <transport/send_work.hpp>
#include <transport/status.hpp>

namespace softverbs::transport {

enum class state : std::uint8_t { reset, init, rtr, rts, sqd, sqe, error };

/// What a completed receive request tells (11.6.2).
struct receive_completion {
  const receive_work& request;
  status result = status::success;
  enum class kind : std::uint8_t { send, write_immediate } what = kind::send;
  bool solicited = false;
  std::uint32_t bytes = 0;
  bool has_immediate = false;
  std::uint32_t immediate = 0;
  bool has_invalidated = false;
  std::uint32_t invalidated_rkey = 0;
  // UD
  bool has_grh = false;
  bool came_by_ipv4 = false;
  std::uint32_t source_qpn = 0;
};

/// Asynchronous events of a queue pair (11.6.3).
enum class event : std::uint8_t {
  first_request,  ///< the peer's first request has come: communication is established
  request_error,
  access_error,
  fatal,
  last_request_reached,  ///< with a shared receive queue, in the error state
  send_queue_drained
};

class front_end {
 public:
  [[nodiscard]] virtual time_point now() const noexcept = 0;

  // --- packets out ---
  /// Nothing is to be sent now; the front end calls again when that changes.
  [[nodiscard]] virtual bool is_frozen() const noexcept = 0;
  /// Towards the peer of a connected queue pair; null if there is no way.
  [[nodiscard]] virtual packet_sink* peer() = 0;
  /// Towards another queue pair, for a datagram; null if there is no way. What was added to
  /// another sink has been flushed.
  [[nodiscard]] virtual packet_sink* datagram_path(const path_ends& ends, std::uint32_t qpn) = 0;

  // --- receive requests in ---
  enum class taken : std::uint8_t { request, nothing, no_such_queue };
  /// The oldest receive request, for a message that names the shared receive queue `xrc_srqn` if
  /// the service is XRC.
  [[nodiscard]] virtual taken take_receive(std::uint32_t xrc_srqn, receive_work& into) = 0;
  /// XRC (annex A14): the domain of the shared receive queue, which its queue pairs borrow.
  [[nodiscard]] virtual memory_domain domain_of_queue(std::uint32_t xrc_srqn) = 0;

  // --- completions and events out ---
  /// Every request, in the order of posting, whether its user wants to hear of it or not. False if
  /// the completion was lost: then nothing that follows can be trusted, and the queue pair fails
  /// (11.6.3.2).
  [[nodiscard]] virtual bool complete(const send_work& work, status result) = 0;
  [[nodiscard]] virtual bool complete(const receive_completion& done) = 0;
  virtual void raise(event what) = 0;
  /// The queue pair has changed its state by itself, to `sqe` or `error`.
  virtual void state_changed(state now) = 0;

 protected:
  ~front_end() = default;
};

}  // namespace softverbs::transport
