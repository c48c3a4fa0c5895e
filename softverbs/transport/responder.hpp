// The receiving half of a queue pair: puts incoming messages where they belong, checks every right
// on every packet, and answers (chapter 9.7 for the reliable services, 9.8 for the others).
//
// responder.cpp keeps the order and answers, responder_messages.cpp carries out what messages ask
// for.
//
// Owner: a queue pair, which looks at has_failed() after each call and, if it has, sends the
// answers, calls report_failure() and fails. Not synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <base/clock.hpp>
#include <net/address.hpp>
#include <transport/packet_sink.hpp>
#include <transport/parameters.hpp>
#include <transport/responder_resources.hpp>
#include <transport/room_wait.hpp>
#include <wire/packet.hpp>

namespace softverbs::transport {

class responder {
 public:
  explicit responder(const surroundings& around) : around_(around) {}

  void reset(std::uint32_t first_psn);
  void on_request(const wire::packet& packet);
  void on_datagram(const wire::packet& packet, const net::address& source,
                   const net::address& destination);

  /// Sends answers that are waiting; true if there is more than it would send at once.
  bool pump();
  [[nodiscard]] bool has_acknowledgement() const { return answer_due_ && resources_.is_empty(); }
  [[nodiscard]] bool has_answers() const { return !resources_.is_empty(); }
  /// When it wants to be pumped again because a ring was full.
  [[nodiscard]] time_point next_deadline() const noexcept { return room_at_; }

  [[nodiscard]] bool has_failed() const noexcept { return failure_.has_value(); }
  /// Completes the receive request that has failed, or raises the event.
  void report_failure();
  /// Completes the receive request that a message was being received into, if any, as flushed.
  void flush();

  [[nodiscard]] std::uint32_t expected_psn() const noexcept { return expected_; }

 private:
  enum class message : std::uint8_t { none, send, write };
  /// Why the queue pair has to fail. Without an event, everything has been told already.
  struct failure {
    std::optional<event> told{};
    status result = status::success;
  };

  [[nodiscard]] std::size_t mtu() const noexcept { return around_.agreed.mtu; }
  [[nodiscard]] bool is_unreliable() const noexcept { return !is_reliable(around_.made.kind); }
  void on_reliable(const wire::packet& packet);
  void on_unreliable(const wire::packet& packet);
  void on_duplicate(const wire::headers& header);
  void accept(const wire::packet& packet);
  [[nodiscard]] bool sequence_is_good(const wire::packet& packet) const;
  void expect_next(std::uint32_t packets = 1) {
    expected_ = (expected_ + packets) & wire::psn_mask;
  }

  void receive_send(const wire::packet& packet);
  void receive_write(const wire::packet& packet);
  void receive_read(const wire::headers& header);
  void receive_atomic(const wire::headers& header);
  /// The memory that the packet names, if the peer may use it so; null if not.
  [[nodiscard]] std::byte* locate(const memory_keys::use& memory, std::uint32_t rkey,
                                  std::uint64_t address, std::uint64_t bytes,
                                  unsigned rights) const;
  [[nodiscard]] bool peer_may(unsigned rights) const noexcept {
    return (around_.agreed.rights & rights) != 0;
  }
  /// Takes a receive request for the message; false if there is none (and the sender was told).
  bool need_receive(const wire::headers& header);
  /// Copies into the receive request at `offset`; success or what is wrong with it.
  [[nodiscard]] status scatter(std::span<const std::byte> bytes, std::uint64_t offset);
  void complete_receive(receive_completion done);
  void message_is_complete(const wire::headers& header);
  void answer_later(response accepted, std::uint32_t packets);

  void acknowledge();
  void refuse(std::uint8_t syndrome);
  /// A request that breaks a rule: the peer is told, the receive request (if any) and the queue
  /// pair fail.
  void reject(wire::nak code, status receive_status, event told);
  /// UC: the rest of the message is dropped.
  void discard();
  /// The first of the responses that wait; false if it could not be sent as a whole.
  bool send_response(packet_sink& out, std::size_t& burst);
  [[nodiscard]] wire::headers answer_header(wire::operation op, std::uint32_t psn) const;

  const surroundings around_;
  std::optional<failure> failure_;
  std::uint32_t expected_ = 0;
  std::uint32_t msn_ = 0;
  bool refused_ = false;  ///< a NAK was sent; silence until the expected packet comes
  bool established_ = false;

  message under_way_ = message::none;
  bool discarding_ = false;  ///< UC: the rest of a damaged message
  bool have_receive_ = false;
  receive_work receive_;
  memory_domain remote_domain_{};  ///< that memory named by packets is in
  std::uint64_t received_ = 0;
  std::uint64_t write_address_ = 0;
  std::uint64_t write_left_ = 0;
  std::uint32_t write_rkey_ = 0;

  responder_resources resources_;
  room_wait room_wait_;
  time_point room_at_ = never;
  bool answer_due_ = false;
  std::uint8_t due_syndrome_ = wire::syndrome_ack;
  std::uint32_t due_psn_ = 0;
};

}  // namespace softverbs::transport
