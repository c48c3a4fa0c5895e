#include <engine/sender.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include <base/descriptor.hpp>
#include <base/log.hpp>
#include <base/settings.hpp>
#include <engine/capture.hpp>
#include <engine/handoff_socket.hpp>
#include <engine/netdev_port.hpp>
#include <fcntl.h>
#include <unistd.h>
#include <wire/pcap.hpp>

namespace softverbs::engine {
namespace {

constexpr std::size_t most_packets = 60;         // below the kernel's UDP_MAX_SEGMENTS of 64
constexpr std::size_t most_train_bytes = 64000;  // one UDP datagram before segmentation
constexpr std::size_t most_parts = 1000;         // below IOV_MAX

std::size_t total(std::span<const iovec> parts) {
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.iov_len;
  return bytes;
}

}  // namespace

struct sender::scratch {
  std::array<std::array<std::byte, wire::most_header_bytes>, most_packets> headers;
  std::array<std::array<std::byte, 3 + wire::icrc_bytes>, most_packets> trailers;
  std::array<iovec, most_parts + 64> parts;
};

sender::scratch& sender::scratch_of_thread() {
  static thread_local scratch memory;
  return memory;
}

sender& sender::towards(const route& to) {
  route_ = &to;
  scratch_ = &scratch_of_thread();
  parts_ = packets_ = segment_bytes_ = train_bytes_ = 0;
  added_ = {};
  doorbell_due_ = false;
  return *this;
}

void sender::add(const wire::headers& wanted, std::span<const iovec> payload) {
  auto header = wanted;
  const auto payload_bytes = total(payload);
  header.pad_bytes = static_cast<std::uint8_t>(-payload_bytes & 3);
  ++added_.packets;
  added_.bytes += wire::packet_bytes(header, payload_bytes);
  if (fault_plan::of_process().is_active(fault_site::packet)) {
    add_with_faults(header, payload);
  } else {
    append(header, payload);
  }
}

void sender::append(const wire::headers& header, std::span<const iovec> payload) {
  if (route_->in_process != nullptr && capture() == nullptr) {
    route_->in_process->enqueue(header, payload, route_->flow.source, route_->flow.destination);
    return;
  }
  const auto packet_bytes = wire::packet_bytes(header, total(payload));
  const bool fits = packets_ == 0 ||
                    (settings::get().segmentation_offload && packet_bytes <= segment_bytes_ &&
                     packets_ < most_packets && train_bytes_ + packet_bytes <= most_train_bytes &&
                     parts_ + payload.size() + 2 <= most_parts);
  if (!fits) send_train();

  if (packets_ == 0) segment_bytes_ = packet_bytes;
  const auto first_part = parts_;
  auto& encoded = scratch_->headers[packets_];
  scratch_->parts[parts_++] = {.iov_base = encoded.data(),
                               .iov_len = wire::encode(header, encoded.data())};
  for (const auto& part : payload) scratch_->parts[parts_++] = part;
  auto& trailer = scratch_->trailers[packets_];
  trailer = {};
  iovec& end = scratch_->parts[parts_++];
  end = {.iov_base = trailer.data(), .iov_len = header.pad_bytes};
  const std::span<const iovec> packet(&scratch_->parts[first_part], parts_ - first_part);
  if (auto* const file = capture()) file->write(route_->flow, packet);
  if (route_->in_process != nullptr) {
    parts_ = 0;
    route_->in_process->enqueue(header, payload, route_->flow.source, route_->flow.destination);
    return;
  }
  if (route_->with_icrc) {
    // The kernel numbers the segments of a train from 0.
    const auto sum = wire::icrc(route_->flow, static_cast<std::uint16_t>(packets_), packet);
    std::memcpy(trailer.data() + header.pad_bytes, &sum, sizeof sum);
  }
  end.iov_len += wire::icrc_bytes;
  if (route_->through_ring()) {
    parts_ = 0;
    doorbell_due_ |= route_->ring->write(packet);
    return;
  }
  ++packets_;
  train_bytes_ += packet_bytes;
  // Only the last packet of a train may be shorter.
  if (packet_bytes < segment_bytes_) send_train();
}

void sender::flush() {
  send_train();
  if (added_.packets != 0) route_->place->traffic.add_sent(std::exchange(added_, {}));
}

void sender::send_train() {
  if (doorbell_due_) {
    doorbell_due_ = false;
    route_->ring->ring_doorbell();
  }
  if (packets_ == 0) return;
  const int failure = hand_over(std::span(scratch_->parts).first(parts_), segment_bytes_);
  // As a network does: what could not be sent is lost, and the transport recovers or reports it.
  if (failure != 0) {
    log(log_level::debug, "sending to {} failed: {}", route_->flow.destination.text(),
        std::strerror(failure));
  }
  parts_ = packets_ = segment_bytes_ = train_bytes_ = 0;
}

int sender::hand_over(std::span<const iovec> parts, std::size_t segment_bytes) const {
  if (route_->handoff_fd >= 0)
    return handoff_socket::send(route_->handoff_fd, route_->flow, parts, segment_bytes)
               ? 0
               : ECONNREFUSED;
  return route_->socket->send(route_->to, route_->to_bytes, parts, packets_ > 1 ? segment_bytes : 0,
                              route_->flow.traffic_class);
}

std::vector<std::byte> sender::flatten(const wire::headers& header,
                                       std::span<const iovec> payload) const {
  std::vector<std::byte> flat(wire::most_header_bytes);
  flat.resize(wire::encode(header, flat.data()));
  for (const auto& part : payload) {
    const auto* bytes = static_cast<const std::byte*>(part.iov_base);
    flat.insert(flat.end(), bytes, bytes + part.iov_len);
  }
  flat.resize(flat.size() + header.pad_bytes);
  const iovec whole{.iov_base = flat.data(), .iov_len = flat.size()};
  if (auto* const file = capture()) file->write(route_->flow, {&whole, 1});
  const auto sum = wire::icrc(route_->flow, 0, {&whole, 1});
  flat.resize(flat.size() + wire::icrc_bytes);
  std::memcpy(flat.data() + whole.iov_len, &sum, sizeof sum);
  return flat;
}

void sender::send_flat(std::span<const std::byte> datagram) {
  if (route_->in_process != nullptr) {
    // What a receiver behind a socket would check.
    if (!wire::icrc_holds(route_->flow, datagram)) return;
    const auto decoded = wire::decode(datagram);
    if (!decoded) return;
    const iovec payload{.iov_base = const_cast<std::byte*>(decoded->payload.data()),
                        .iov_len = decoded->payload.size()};
    route_->in_process->enqueue(decoded->header, {&payload, 1}, route_->flow.source,
                                route_->flow.destination);
    return;
  }
  const iovec whole{.iov_base = const_cast<std::byte*>(datagram.data()),
                    .iov_len = datagram.size()};
  if (route_->through_ring()) {
    doorbell_due_ |= route_->ring->write({&whole, 1});
    return;
  }
  [[maybe_unused]] const int lost = hand_over({&whole, 1}, datagram.size());
}

void sender::send_later(std::vector<std::byte> datagram, std::chrono::nanoseconds delay) const {
  // Thousands of them may be waiting: all that one needs is in one block, which timers can copy.
  struct late_packet {
    late_packet(route to, std::vector<std::byte> bytes)
        : way(std::move(to)), datagram(std::move(bytes)) {
      // The socket belongs to whoever is sending now.
      if (way.handoff_fd < 0) return;
      handoff_fd = descriptor(::fcntl(way.handoff_fd, F_DUPFD_CLOEXEC, 0));
      way.handoff_fd = handoff_fd.get();
    }

    route way;
    descriptor handoff_fd;
    std::vector<std::byte> datagram;
  };
  const auto late = std::make_shared<const late_packet>(*route_, std::move(datagram));
  route_->place->timers().at(clock::now() + delay, [late] {
    const auto& place = *late->way.place;
    if (place.outages().port_is_down() || place.outages().is_frozen()) return;  // lost
    packet_origin nobody;
    sender(late->way, nobody).send_flat(late->datagram);
  });
}

void sender::add_with_faults(const wire::headers& header, std::span<const iovec> payload) {
  using action = fault_rule::action;
  if (route_->place->outages().port_is_down()) return;
  const auto first = payload.empty()
                         ? std::span<const std::byte>()
                         : std::span(static_cast<const std::byte*>(payload.front().iov_base),
                                     payload.front().iov_len);
  const auto fate = fault_plan::of_process().on_packet(from_.name, header, first);
  if (fate.what == action::lose) return;
  auto packet = flatten(header, payload);
  if (fate.what == action::delay) {
    send_later(std::move(packet), fate.delay);
    return;
  }
  if (fate.what == action::reorder && !from_.held) {
    from_.held = std::move(packet);
    return;
  }
  if (fate.what == action::corrupt) {
    // The packet's own bytes, except the one that the ICRC leaves out.
    auto bit = fate.random % static_cast<std::uint32_t>(packet.size() * 8);
    if (bit / 8 == 4) bit += 8;
    packet[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
  send_flat(packet);
  if (fate.what == action::duplicate) send_flat(packet);
  if (from_.held) {
    send_flat(*from_.held);
    from_.held.reset();
  }
}

}  // namespace softverbs::engine
