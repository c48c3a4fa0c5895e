// What this process has sent and received through a soft device: the counters of its port.
//
// They belong to the process and outlive every use of the netdev, so that they only grow. Queue
// pairs add to them once for each burst. Any thread may call any function.
#pragma once

#include <atomic>
#include <cstdint>

namespace softverbs::engine {

class traffic_counters {
 public:
  /// Of the netdev with that index.
  [[nodiscard]] static traffic_counters& of(unsigned netdev_index);

  struct amount {
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;  ///< from the BTH to the ICRC
  };

  void add_sent(const amount& more) noexcept { add(sent_, more); }
  void add_received(const amount& more) noexcept { add(received_, more); }
  [[nodiscard]] amount sent() const noexcept { return read(sent_); }
  [[nodiscard]] amount received() const noexcept { return read(received_); }

 private:
  struct counter {
    std::atomic<std::uint64_t> packets = 0;
    std::atomic<std::uint64_t> bytes = 0;
  };
  static void add(counter& to, const amount& more) noexcept {
    to.packets.fetch_add(more.packets, std::memory_order_relaxed);
    to.bytes.fetch_add(more.bytes, std::memory_order_relaxed);
  }
  static amount read(const counter& from) noexcept {
    return {.packets = from.packets.load(std::memory_order_relaxed),
            .bytes = from.bytes.load(std::memory_order_relaxed)};
  }

  // Senders and receivers are often different threads.
  alignas(64) counter sent_;
  alignas(64) counter received_;
};

}  // namespace softverbs::engine
