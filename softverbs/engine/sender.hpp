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

#include <engine/endpoint.hpp>
#include <engine/fault_plan.hpp>
#include <engine/packet_ring.hpp>
#include <engine/traffic_counters.hpp>
#include <net/address.hpp>
#include <net/udp_socket.hpp>
#include <sys/uio.h>
#include <wire/icrc.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {

class station;

/// Where packets go and how.
struct route {
  station* place = nullptr;  ///< that they leave from
  wire::flow flow;
  std::shared_ptr<endpoint> in_process;     ///< the receiver, if it lives in this process
  std::shared_ptr<ring_writer> ring;        ///< else the memory shared with its process
  int letters = -1;                         ///< else the socket towards its mailbox
  const net::udp_socket* socket = nullptr;  ///< else the socket that sends
  sockaddr_storage to{};
  socklen_t to_bytes = 0;
  bool same_host = false;  ///< another softverbs process of this host, or this one
  bool with_icrc = true;

  /// Whether a packet of that payload would not be lost here already.
  [[nodiscard]] bool has_room(std::size_t payload) const {
    return !through_ring() || ring->has_room(payload + 64);
  }
  /// A ring that has ended, or was refused, leaves the socket.
  [[nodiscard]] bool through_ring() const noexcept { return ring != nullptr && !ring->is_closed(); }
};

/// Whom packets come from, as far as the fault plan has to know.
struct packet_origin {
  queue_pair_name name;
  std::optional<std::vector<std::byte>> held;  ///< until another packet has overtaken it
};

/// Lives on the stack of one burst; one at a time in each thread. Payload memory must stay in place
/// until flush() or the destructor.
class sender {
 public:
  sender(const route& to, packet_origin& from);
  sender(const sender&) = delete;
  sender& operator=(const sender&) = delete;
  ~sender();

  /// Pads the payload itself: header.pad_bytes is set here.
  void add(wire::headers header, std::span<const iovec> payload);
  void flush();
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct scratch;

  void append(const wire::headers& header, std::span<const iovec> payload);
  void add_with_faults(const wire::headers& header, std::span<const iovec> payload);
  /// What has been collected, or is complete already, leaves. 0 or an errno.
  [[nodiscard]] int hand_over(std::span<const iovec> parts, std::size_t segment_bytes) const;
  void send_flat(std::span<const std::byte> datagram);
  void send_later(std::vector<std::byte> datagram, std::chrono::nanoseconds delay) const;
  [[nodiscard]] std::vector<std::byte> flatten(const wire::headers& header,
                                               std::span<const iovec> payload) const;

  const route& route_;
  packet_origin& from_;
  scratch& scratch_;
  std::size_t parts_ = 0;
  std::size_t packets_ = 0;
  std::size_t segment_bytes_ = 0;
  std::size_t train_bytes_ = 0;
  std::size_t bytes_ = 0;
  traffic_counters::amount added_;
  bool bell_due_ = false;
};

}  // namespace softverbs::engine
