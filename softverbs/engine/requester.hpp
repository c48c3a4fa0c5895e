// The sending half of a queue pair: turns send requests into packets, keeps what is not
// acknowledged, and sends it again when the network or the peer asks for it (chapter 9.7 for the
// reliable services, 9.8 for the others).
//
// All functions are called with the endpoint's lock held.
//
// PSNs are counted in 64 bits here, so that comparing them needs no care; the lower 24 bits are
// what the wire carries. Every request is given as many PSNs as packets it causes on either side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include <engine/clock.hpp>
#include <engine/memory_table.hpp>
#include <engine/packet_timer.hpp>
#include <engine/room_wait.hpp>
#include <engine/round_trip.hpp>
#include <engine/send_window.hpp>
#include <engine/sender.hpp>
#include <infiniband/verbs.h>
#include <wire/packet.hpp>

namespace softverbs::engine {

class queue_pair;
struct send_work;

class requester {
 public:
  explicit requester(queue_pair& qp) : qp_(qp) {}

  /// RESET: as new, with this first PSN.
  void reset(std::uint32_t first_psn);
  /// Sends what window, credits and fences allow. True if there is more that it could send at once.
  bool pump();

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
  /// Says at level info how many packets were sent, and how many of them again.
  void log_totals() const;
  /// No request has been begun that is not complete (for the state SQD).
  [[nodiscard]] bool is_idle() const;

 private:
  struct outstanding_read {
    std::uint64_t first;
    std::uint64_t last;
  };

  [[nodiscard]] bool is_reliable() const;
  [[nodiscard]] std::uint64_t extend(std::uint32_t psn) const;
  bool pump_reliable();
  bool pump_unreliable();
  bool begin(send_work& work, std::uint64_t index, const memory_table::use& memory);
  void carry_out(send_work& work);
  bool send_some(sender& out, send_work& work, std::uint64_t index,
                 const memory_table::use& memory);
  /// The next packet of a message; false if its memory is not there any more. It asks for an
  /// acknowledgement if told to, and, where the peer's answers pace it, often enough for the
  /// window.
  bool send_packet(sender& out, send_work& work, std::uint64_t index,
                   const memory_table::use& memory, bool acknowledge, bool paced);
  [[nodiscard]] wire::headers message_header(const send_work& work) const;
  void send_read_request(sender& out, const send_work& work);
  void send_atomic(sender& out, const send_work& work);
  [[nodiscard]] bool local_memory_is_good(const send_work& work, std::uint64_t index,
                                          const memory_table::use& memory);
  /// The end of the piece of a read that begins at `next_`, in PSNs.
  [[nodiscard]] std::uint64_t end_of_piece(const send_work& work) const;
  [[nodiscard]] std::size_t under_way() const;
  [[nodiscard]] bool window_is_open(std::size_t bytes) const;
  [[nodiscard]] bool has_room(const route& way);

  /// Everything up to this PSN has arrived. False if an answer that is needed got lost on the way.
  bool acknowledge_through(std::uint64_t psn);
  void complete_oldest(ibv_wc_status status);
  void complete_local_work();
  /// Everything before `unacknowledged_` has arrived, which was not known of what is behind
  /// `before`.
  void progress_made(std::uint64_t before);
  /// Measures a round trip from here, unless enough of them are being measured.
  void time_packet(std::uint64_t psn);
  void count_packet(std::uint64_t psn) {
    ++sent_;
    if (psn < highest_) ++sent_again_;
  }
  void go_back_to(std::uint64_t psn);
  /// False if there is no retry left, and the request has failed.
  bool count_retry(std::uint64_t psn);
  void retry_from(std::uint64_t psn);
  void answer_was_lost();
  /// Nobody answers: sends the oldest packet again, which makes the peer say what it has.
  void probe();
  void start_timers();
  void stop_timers();
  void fail_oldest(ibv_wc_status status);
  void fail_at(std::uint64_t psn, ibv_wc_status status);
  [[nodiscard]] clock::duration acknowledge_timeout() const;

  queue_pair& qp_;
  std::uint64_t unacknowledged_ = 0;    ///< oldest PSN that is not acknowledged
  std::uint64_t next_ = 0;              ///< the PSN that is sent next
  std::uint64_t highest_ = 0;           ///< one behind the newest PSN that was ever sent
  std::uint64_t assigned_ = 0;          ///< the first PSN that no request has
  std::uint64_t cursor_ = 0;            ///< index of the request that `next_` belongs to
  std::deque<outstanding_read> reads_;  ///< read requests and atomics without their answer
  /// Last PSNs of the pieces of reads, as they were asked for first: what is asked for again must
  /// not reach beyond what the responder knows (9.7.5.1.2).
  std::deque<std::uint64_t> piece_ends_;

  std::uint64_t asked_again_ = 0;  ///< the PSN whose answer was found missing

  send_window window_;  ///< bytes that may be under way
  std::size_t since_ack_request_ = 0;
  std::uint64_t sent_ = 0;  ///< packets, since the queue pair was made
  std::uint64_t sent_again_ = 0;

  round_trip round_trip_;
  packet_timer timer_;
  time_point smoothed_at_{};  ///< when the latest sample was taken
  unsigned not_timed_ = 0;    ///< packets since the last sample

  /// Where sending goes on if a probe finds that nothing was lost.
  struct place {
    std::uint64_t next;
    std::uint64_t cursor;
  };
  std::optional<place> probed_from_;

  unsigned retries_left_ = 0;
  unsigned rnr_retries_left_ = 0;
  time_point retransmit_at_ = never;
  time_point probe_at_ = never;
  time_point last_active_{};  ///< when timers were started last
  time_point rnr_until_ = time_point::min();
  time_point room_at_ = never;  ///< when a full ring may have room again
  room_wait room_wait_;
  bool blocked_ = false;            ///< the ring was full
  bool neighbour_is_gone_ = false;  ///< for too long: without acknowledgements, packets get lost
};

}  // namespace softverbs::engine
