#pragma once

// connection: a reliable queue pair and its memory, for measurements.
//
// It counts what has completed. Waiting polls without sleeping, because sleeping would be part of
// what is measured; it ends with an exception when a request fails, or when nothing completes for
// too long.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include <rdmaxx/rdmaxx.hpp>

namespace rdmaxx::tool {

class connection {
 public:
  /// Uses the port and GID of `choice`. Its memory has `bytes` for transfers, which the peer may
  /// read and write, and apart from them room for one message in each direction.
  connection(const device_choice& choice, std::size_t bytes);

  [[nodiscard]] qp_endpoint endpoint() const;
  void connect(const qp_endpoint& peer);

  [[nodiscard]] const queue_pair& qp() const noexcept { return qp_; }
  [[nodiscard]] const memory_region& memory() const noexcept { return memory_; }

  /// Posts a receive for one message.
  void expect_message() const;
  void send_message(std::uint64_t message) const;
  /// The message that arrived last.
  [[nodiscard]] std::uint64_t message() const;

  /// Wait until this many requests have completed since the start.
  void wait_until_sent(std::uint64_t total);
  void wait_until_received(std::uint64_t total);
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }

 private:
  void wait_for(const std::uint64_t& counter, std::uint64_t total);
  /// Counts what has completed; false if nothing has.
  bool poll();

  device_choice choice_;
  protection_domain pd_;
  completion_queue cq_;
  owned_region memory_;
  owned_region outgoing_;
  owned_region incoming_;
  queue_pair qp_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace rdmaxx::tool
