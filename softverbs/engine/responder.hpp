// The receiving half of a queue pair: puts incoming messages where they belong, checks every right
// on every packet, and answers (chapter 9.7 for the reliable services, 9.8 for the others).
//
// All functions are called with the endpoint's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include <engine/endpoint.hpp>
#include <engine/receive_queue.hpp>
#include <engine/room_wait.hpp>
#include <engine/sender.hpp>
#include <infiniband/verbs.h>
#include <wire/packet.hpp>

namespace softverbs::engine {

class completion_queue;
class queue_pair;

class responder {
 public:
  explicit responder(queue_pair& qp) : qp_(qp) {}

  void reset(std::uint32_t first_psn);
  void on_request(const inbound& in);
  void on_datagram(const inbound& in);

  /// Sends answers that are waiting; true if there is more than it would send at once.
  bool pump();
  [[nodiscard]] bool has_acknowledgement() const { return answer_due_ && answers_.empty(); }
  [[nodiscard]] bool has_answers() const { return !answers_.empty(); }
  /// The request that a message was being received into, if any: it is flushed first.
  [[nodiscard]] bool take_current_receive(receive_work& out);
  [[nodiscard]] std::uint32_t expected_psn() const { return expected_; }

 private:
  /// A read or an atomic that is being answered, or was and may be asked for again.
  struct answer {
    bool is_atomic = false;
    std::uint32_t first_psn = 0;
    std::uint32_t packets = 1;
    std::uint64_t address = 0;
    std::uint32_t rkey = 0;
    std::uint32_t bytes = 0;
    const ibv_pd* pd = nullptr;
    std::uint64_t original = 0;
    std::uint32_t sent = 0;  ///< packets
    bool repeated = false;   ///< asked for again; the requester does not count it any more
    std::uint32_t msn = 0;
  };
  enum class message : std::uint8_t { none, send, write };

  void on_reliable(const inbound& in);
  void on_unreliable(const inbound& in);
  void on_duplicate(const wire::headers& header);
  void accept(const inbound& in);
  [[nodiscard]] bool sequence_is_good(const wire::packet& packet) const;

  void receive_send(const wire::packet& packet);
  void receive_write(const wire::packet& packet);
  /// Whether fewer reads and atomics wait for their answers than max_dest_rd_atomic (9.7.4.1).
  [[nodiscard]] bool may_answer_one_more() const;
  void receive_read(const wire::headers& header);
  void receive_atomic(const wire::headers& header);
  /// Takes a receive request for the message; false if there is none (and the sender was told).
  bool need_receive(const wire::headers& header);
  /// Copies into the receive request at `offset`; IBV_WC_SUCCESS or what is wrong with it.
  [[nodiscard]] ibv_wc_status scatter(std::span<const std::byte> bytes, std::uint64_t offset);
  void complete_receive(ibv_wc wc, bool solicited);
  void message_is_complete(const wire::headers& header);

  void acknowledge();
  void refuse(std::uint8_t syndrome);
  /// A request that breaks a rule: the peer is told, the receive request (if any) and the queue
  /// pair fail.
  void reject(wire::nak code, ibv_wc_status receive_status, ibv_event_type event);
  void send_simple_answer();
  [[nodiscard]] wire::headers answer_header(wire::operation op, std::uint32_t psn) const;

  queue_pair& qp_;
  std::uint32_t expected_ = 0;
  std::uint32_t msn_ = 0;
  bool refused_ = false;  ///< a NAK was sent; silence until the expected packet comes
  bool established_ = false;

  message under_way_ = message::none;
  bool discarding_ = false;  ///< UC: the rest of a damaged message
  bool have_receive_ = false;
  receive_work receive_;
  completion_queue* receive_cq_ = nullptr;
  const ibv_pd* receive_pd_ = nullptr;
  const ibv_pd* remote_pd_ = nullptr;  ///< that regions named by the packet must belong to
  std::uint64_t received_ = 0;
  std::uint64_t write_address_ = 0;
  std::uint64_t write_left_ = 0;
  std::uint32_t write_rkey_ = 0;

  std::deque<answer> answers_;    ///< being sent
  std::deque<answer> resources_;  ///< sent, kept for repetition (9.7.5.1.2)
  room_wait room_wait_;
  bool answer_due_ = false;
  std::uint8_t due_syndrome_ = wire::syndrome_ack;
  std::uint32_t due_psn_ = 0;
};

}  // namespace softverbs::engine
