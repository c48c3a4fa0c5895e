// One end of a service id resolution (SIDR, 12.11): a client asks which datagram queue pair
// provides a service, the server answers once. Without I/O, as connection.hpp.
//
//   client:  idle → req_sent → resolved | closed
//   server:  idle → req_received → resolved | closed
#pragma once

#include <cstdint>
#include <optional>

#include <cm/protocol_step.hpp>
#include <cm/retransmission.hpp>
#include <engine/clock.hpp>
#include <wire/cm_message.hpp>

namespace softverbs::cm {

class sidr_exchange {
 public:
  enum class state : std::uint8_t { idle, req_sent, req_received, resolved, closed };

  // --- inputs from the user ---
  /// The client: sends the SIDR_REQ.
  [[nodiscard]] protocol_step connect(const wire::cm_message& req, engine::time_point now);
  /// The server: a SIDR_REQ that is no repetition.
  void receive_request(const wire::cm_message& req);
  /// `rep` carries queue pair, Q_Key and private data, or the status of a refusal; the ids are
  /// filled in.
  [[nodiscard]] protocol_step accept(const wire::cm_message& rep);
  [[nodiscard]] protocol_step reject(const wire::cm_message& rep);
  [[nodiscard]] protocol_step disconnect() const;
  /// The user destroys this end. Only the message of the step counts.
  [[nodiscard]] protocol_step abandon();

  // --- inputs from the network ---
  /// A message to this request id, or a repetition of its SIDR_REQ. `same_host`: the peer is a
  /// process of this host.
  [[nodiscard]] protocol_step on_message(const wire::cm_message& message, bool same_host,
                                         engine::time_point now);
  [[nodiscard]] protocol_step on_timer(engine::time_point now);
  /// The message of the last step was not sent, as in connection::on_send_failure().
  [[nodiscard]] protocol_step on_send_failure(int failure, engine::time_point now);

  // --- what it is ---
  [[nodiscard]] state current_state() const noexcept { return state_; }
  [[nodiscard]] engine::time_point due() const noexcept { return request_.due(); }

 private:
  [[nodiscard]] protocol_step answer(wire::cm_message rep, state next);
  [[nodiscard]] protocol_step on_answer(const wire::cm_message& rep);

  state state_ = state::idle;
  std::uint32_t request_id_ = 0;  ///< the client's comm id
  std::uint64_t transaction_ = 0;
  std::uint64_t service_id_ = 0;
  bool accepting_ = false;                  ///< the last step sent the answer for the first time
  retransmission request_;                  ///< of the client
  std::optional<wire::cm_message> answer_;  ///< of the server, for repetitions of the request
};

}  // namespace softverbs::cm
