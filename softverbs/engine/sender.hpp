// Sends the packets of one queue pair to one destination: collects them into trains for the socket,
// or puts them into the inbox of a queue pair of this process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <engine/fault_plan.hpp>
#include <engine/route.hpp>
#include <engine/traffic_counters.hpp>
#include <sys/uio.h>
#include <transport/packet_sink.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {

/// Whom packets come from, as far as the fault plan has to know.
struct packet_origin {
  queue_pair_name name;
  std::optional<std::vector<std::byte>> held;  ///< until another packet has overtaken it
};

/// One burst at a time in each thread: payload memory stays in place until flush(). A queue pair
/// keeps one and directs it to where the burst goes.
class sender final : public transport::packet_sink {
 public:
  explicit sender(packet_origin& from) : from_(from) {}
  sender(const route& to, packet_origin& from) : from_(from) { static_cast<void>(towards(to)); }
  sender(const sender&) = delete;
  sender& operator=(const sender&) = delete;
  ~sender() { flush(); }

  /// The next burst goes there. The last one has been flushed; what an exception has left of it is
  /// lost.
  [[nodiscard]] sender& towards(const route& to);

  [[nodiscard]] bool has_room(std::size_t payload) const override {
    return route_->has_room(payload);
  }
  [[nodiscard]] bool is_flow_controlled() const override { return route_->same_host; }
  void add(const wire::headers& header, std::span<const iovec> payload) override;
  void flush() override;

 private:
  struct scratch;

  [[nodiscard]] static scratch& scratch_of_thread();
  void append(const wire::headers& header, std::span<const iovec> payload);
  /// What has been collected leaves.
  void send_train();
  void add_with_faults(const wire::headers& header, std::span<const iovec> payload);
  /// What has been collected, or is complete already, leaves. 0 or an errno.
  [[nodiscard]] int hand_over(std::span<const iovec> parts, std::size_t segment_bytes) const;
  void send_flat(std::span<const std::byte> datagram);
  void send_later(std::vector<std::byte> datagram, std::chrono::nanoseconds delay) const;
  [[nodiscard]] std::vector<std::byte> flatten(const wire::headers& header,
                                               std::span<const iovec> payload) const;

  const route* route_ = nullptr;
  packet_origin& from_;
  scratch* scratch_ = nullptr;  ///< of the thread of this burst
  std::size_t parts_ = 0;
  std::size_t packets_ = 0;
  std::size_t segment_bytes_ = 0;
  std::size_t train_bytes_ = 0;
  traffic_counters::amount added_;
  bool doorbell_due_ = false;
};

}  // namespace softverbs::engine
