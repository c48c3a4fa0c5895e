// The sending half of a queue pair: turns send requests into packets, keeps what is not
// acknowledged, and sends it again when the network or the peer asks for it (chapter 9.7 for the
// reliable services, 9.8 for the others).
//
// requester.cpp sends, requester_answers.cpp handles what comes back and what does not,
// requester_unreliable.cpp is all there is to UC and UD.
//
// PSNs are counted in 64 bits here, so that comparing them needs no care; the lower 24 bits are
// what the wire carries. Every request is given as many PSNs as packets it causes on either side.
//
// Owner: a queue pair, which looks at failure() after each call and flushes if it has to. Not
// synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include <base/clock.hpp>
#include <transport/memory_keys.hpp>
#include <transport/packet_sink.hpp>
#include <transport/parameters.hpp>
#include <transport/retransmission_timers.hpp>
#include <transport/room_wait.hpp>
#include <transport/send_queue.hpp>
#include <transport/send_window.hpp>
#include <wire/packet.hpp>

namespace softverbs::transport {

class requester {
 public:
  requester(const surroundings& around, send_queue& sends) : around_(around), sends_(sends) {}

  /// As new, with this first PSN and no failure.
  void reset(std::uint32_t first_psn);
  /// Sends what window, credits and fences allow; true if there is more that it could send at once.
  /// In SQD nothing is begun, and what was begun is brought to its end (10.3.1.7).
  bool pump(bool may_begin);
  /// Completes everything that is queued as flushed.
  void flush();

  /// What has gone wrong: nothing, something that stops the send queue alone (UC and UD), or the
  /// queue pair. It stops sending by itself; the rest is its owner's to do.
  enum class failure : std::uint8_t { none, send_queue, queue_pair };
  [[nodiscard]] failure failed() const noexcept { return failure_; }

  void on_acknowledge(const wire::headers& header);
  void on_read_response(const wire::packet& response);
  void on_atomic_acknowledge(const wire::headers& header);
  /// UC and UD between processes of one host: the receiver has taken packets up to this PSN.
  void on_flow_control(std::uint32_t psn);
  void on_timer(time_point now);
  [[nodiscard]] time_point next_deadline() const;

  [[nodiscard]] std::uint32_t next_psn() const {
    return static_cast<std::uint32_t>(next_) & wire::psn_mask;
  }
  /// No request has been begun that is not complete (for the state SQD).
  [[nodiscard]] bool is_idle() const;

  struct totals {
    std::uint64_t sent = 0;  ///< packets, since the queue pair was made
    std::uint64_t again = 0;
  };
  [[nodiscard]] const totals& packets() const noexcept { return packets_; }

 private:
  struct outstanding_read {
    std::uint64_t first;
    std::uint64_t last;
  };
  /// What one call sends before others get their turn.
  struct burst {
    static constexpr std::size_t most = std::size_t{256} * 1024;
    packet_sink& out;
    std::size_t bytes = 0;

    [[nodiscard]] bool is_full() const noexcept { return bytes >= most; }
  };

  [[nodiscard]] std::size_t mtu() const noexcept { return around_.agreed.mtu; }
  [[nodiscard]] std::uint64_t extend(std::uint32_t psn) const;
  [[nodiscard]] std::span<const element> elements_of(std::uint64_t index) {
    return {sends_.elements(index), sends_[index].elements};
  }

  bool pump_reliable(bool may_begin);
  bool pump_unreliable(bool may_begin);
  bool begin(send_work& work, std::uint64_t index, const memory_keys::use& memory, bool may_begin);
  void carry_out(send_work& work);
  bool send_some(burst& out, send_work& work, std::uint64_t index, const memory_keys::use& memory);
  /// The next packet of a message; false if its memory is not there any more. It asks for an
  /// acknowledgement if told to, and, where the peer's answers pace it, often enough for the
  /// window.
  bool send_packet(burst& out, send_work& work, std::uint64_t index, const memory_keys::use& memory,
                   bool acknowledge, bool paced);
  [[nodiscard]] wire::headers message_header(const send_work& work) const;
  void send_read_request(burst& out, const send_work& work);
  void send_atomic(burst& out, const send_work& work);
  [[nodiscard]] bool local_memory_is_good(const send_work& work, std::uint64_t index,
                                          const memory_keys::use& memory);
  /// The end of the piece of a read that begins at `next_`, in PSNs.
  [[nodiscard]] std::uint64_t end_of_piece(const send_work& work) const;
  [[nodiscard]] std::size_t under_way() const;
  [[nodiscard]] bool window_is_open(std::size_t bytes) const;
  [[nodiscard]] bool has_room(const packet_sink& out);

  /// Everything up to this PSN has arrived. False if an answer that is needed got lost on the way.
  bool acknowledge_through(std::uint64_t psn);
  /// The answers before this PSN have come; false if one of them is missing.
  bool answers_are_complete_before(std::uint64_t psn);
  /// Puts the answer to the oldest request, which it belongs to, into the request's memory.
  void take_answer(std::uint64_t psn, std::span<const std::byte> bytes, std::uint64_t offset);
  void complete_oldest(status result);
  void complete_local_work();
  /// Everything before `unacknowledged_` has arrived, which was not known of what is behind
  /// `before`.
  void progress_made(std::uint64_t before);
  /// Measures a round trip from here, unless enough of them are being measured.
  void time_packet(std::uint64_t psn);
  void count_packet(std::uint64_t psn) {
    ++packets_.sent;
    if (psn < highest_) ++packets_.again;
  }
  void go_back_to(std::uint64_t psn);
  /// False if there is no retry left, and the request has failed.
  bool count_retry(std::uint64_t psn);
  void retry_from(std::uint64_t psn);
  void answer_was_lost();
  /// Nobody answers: sends the oldest packet again, which makes the peer say what it has.
  void probe(time_point now);
  void start_timers() { timers_.start(around_.front.now(), around_.agreed.timeout); }
  void receiver_is_not_ready(std::uint64_t psn, std::uint8_t timer_code);
  void fail_oldest(status result);
  void fail_at(std::uint64_t psn, status result);

  const surroundings around_;
  send_queue& sends_;
  failure failure_ = failure::none;

  std::uint64_t unacknowledged_ = 0;    ///< oldest PSN that is not acknowledged
  std::uint64_t next_ = 0;              ///< the PSN that is sent next
  std::uint64_t highest_ = 0;           ///< one behind the newest PSN that was ever sent
  std::uint64_t assigned_ = 0;          ///< the first PSN that no request has
  std::uint64_t cursor_ = 0;            ///< index of the request that `next_` belongs to
  std::deque<outstanding_read> reads_;  ///< read requests and atomics without their answer
  /// Last PSNs of the pieces of reads, in order, as they were ever asked for: what is asked for
  /// again must not reach beyond what the responder may know (9.7.5.1.2). It may have heard only
  /// the second, shorter time.
  std::deque<std::uint64_t> piece_ends_;

  std::uint64_t asked_again_ = 0;  ///< the PSN whose answer was found missing

  send_window window_;  ///< bytes that may be under way
  std::size_t since_ack_request_ = 0;
  totals packets_;

  retransmission_timers timers_;

  /// Where sending goes on if a probe finds that nothing was lost.
  struct place {
    std::uint64_t next;
    std::uint64_t cursor;
  };
  std::optional<place> probed_from_;

  unsigned retries_left_ = 0;
  unsigned rnr_retries_left_ = 0;
  time_point rnr_until_ = time_point::min();
  time_point room_at_ = never;  ///< when a full ring may have room again
  room_wait room_wait_;
  bool blocked_ = false;            ///< the ring was full
  bool neighbour_is_gone_ = false;  ///< for too long: without acknowledgements, packets get lost
};

}  // namespace softverbs::transport
