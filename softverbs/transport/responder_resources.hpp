// Reads and atomics that are being answered, and those that have been and may be asked for again
// (9.7.5.1.2): as many as the peer may have outstanding.
//
// Owner: a responder. Not synchronised, without I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include <transport/memory_domain.hpp>
#include <wire/packet.hpp>

namespace softverbs::transport {

/// The answer to one read or atomic.
struct response {
  bool is_atomic = false;
  std::uint32_t first_psn = 0;
  std::uint32_t packets = 1;
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t bytes = 0;
  memory_domain domain{};
  std::uint64_t original = 0;
  std::uint32_t sent = 0;  ///< packets
  bool repeated = false;   ///< asked for again; the requester does not count it any more
  std::uint32_t msn = 0;
};

class responder_resources {
 public:
  /// Whether fewer answers are outstanding than the peer may ask for at once (9.7.4.1).
  [[nodiscard]] bool has_room(std::uint8_t max_dest_rd_atomic) const;
  void add(const response& accepted, std::uint8_t max_dest_rd_atomic);
  /// A read or atomic that has been accepted before: it is answered again, if it is still known.
  void repeat(const wire::headers& request, std::size_t mtu);
  void clear();

  // --- what is to be sent ---
  [[nodiscard]] bool is_empty() const noexcept { return waiting_.empty(); }
  [[nodiscard]] response& front() { return waiting_.front(); }
  void pop() { waiting_.pop_front(); }
  void drop_waiting() { waiting_.clear(); }

 private:
  // What a requester may ask for again before the answers to that have left.
  static constexpr std::size_t most_repeated = 512;

  std::deque<response> waiting_;
  std::deque<response> kept_;
};

}  // namespace softverbs::transport
