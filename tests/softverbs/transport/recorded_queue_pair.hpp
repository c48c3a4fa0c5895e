// A queue pair of the transport whose front end only records: packets go in by hand, and what comes
// out is looked at. Its clock stands still until a test moves it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <transport/front_end.hpp>
#include <transport/memory_keys.hpp>
#include <transport/queue_pair.hpp>
#include <wire/packet.hpp>

namespace softverbs::transport {

struct sent_packet {
  wire::headers header;
  std::vector<std::byte> payload;
};

struct completed_send {
  std::uint64_t id = 0;
  status result = status::success;

  friend bool operator==(const completed_send&, const completed_send&) = default;
};

struct completed_receive {
  std::uint64_t id = 0;
  status result = status::success;
  std::uint32_t bytes = 0;
  std::uint32_t immediate = 0;

  friend bool operator==(const completed_receive&, const completed_receive&) = default;
};

inline std::ostream& operator<<(std::ostream& to, const completed_send& shown) {
  return to << "send " << shown.id << " status " << static_cast<int>(shown.result);
}
inline std::ostream& operator<<(std::ostream& to, const completed_receive& shown) {
  return to << "receive " << shown.id << " status " << static_cast<int>(shown.result) << " bytes "
            << shown.bytes << " immediate " << shown.immediate;
}

class recorded_queue_pair final : private front_end, private packet_sink {
 public:
  static constexpr std::size_t mtu = 256;
  static constexpr std::uint32_t own_qpn = 0x11;
  static constexpr std::uint32_t peer_qpn = 0x22;
  static constexpr memory_domain domain{1};

  explicit recorded_queue_pair(service kind = service::rc, std::uint32_t first_psn = 0)
      : configuration_{.kind = kind, .qpn = own_qpn, .domain = domain} {
    region_.start = memory.data();
    region_.size = memory.size();
    region_.rights =
        access::local_write | access::remote_write | access::remote_read | access::remote_atomic;
    region_.domain = domain;
    EXPECT_TRUE(keys.add(region_));
    core.agreed = {.destination_qpn = peer_qpn,
                   .qkey = 0x42,
                   .mtu = mtu,
                   .rights = region_.rights,
                   .timeout = 14,
                   .retry_count = 2,
                   .rnr_retry = 2,
                   .min_rnr_timer = 12,
                   .max_rd_atomic = 2,
                   .max_dest_rd_atomic = 2};
    core.enter(state::init);
    core.enter(state::rtr, first_psn);
    core.enter(state::rts, first_psn);
  }

  // --- a user ---

  [[nodiscard]] std::uint32_t key() const { return region_.key; }

  /// A request about the region, from its offset 0; sent at once.
  void post(send_work work, std::uint32_t bytes) {
    queue(std::move(work), bytes);
    pump();
  }
  void queue(send_work work, std::uint32_t bytes) {
    const auto slot = core.sends.next_slot();
    work.elements = 1;
    work.bytes = bytes;
    work.rkey = region_.key;
    if (configuration_.kind == service::ud) work.to.destination = {.raw = {1}};
    work.remote_qpn = peer_qpn;
    core.sends[slot] = work;
    core.sends.elements(slot)[0] = {.address = 0, .length = bytes, .key = region_.key};
    core.posted(1);
  }
  void post_receive(std::uint64_t id, std::uint32_t bytes, std::uint64_t offset = 0) {
    receive_work made;
    made.id = id;
    made.domain = domain;
    made.into = {{.address = offset, .length = bytes, .key = region_.key}};
    receives.push_back(std::move(made));
  }

  // --- the network and the clock ---

  void pump() {
    while (core.answer()) {
    }
    while (core.send()) {
    }
  }
  void receive(const wire::headers& header, std::span<const std::byte> payload = {}) {
    const wire::packet packet{.header = header, .payload = payload};
    core.receive({.packet = packet, .source = {}, .destination = {}});
    pump();
  }
  /// An answer of the peer.
  void acknowledge(std::uint32_t psn, std::uint8_t syndrome = wire::syndrome_ack) {
    receive({.service = wire_service(),
             .op = wire::operation::acknowledge,
             .psn = psn,
             .syndrome = syndrome});
  }
  void refuse(std::uint32_t psn, wire::nak code) {
    acknowledge(psn, static_cast<std::uint8_t>(wire::syndrome_nak | static_cast<unsigned>(code)));
  }
  /// A request of the peer that asks for an acknowledgement.
  [[nodiscard]] wire::headers request(wire::operation op, std::uint32_t psn) const {
    wire::headers made{.service = wire_service(), .op = op, .ack_request = true, .psn = psn};
    made.rkey = region_.key;
    return made;
  }
  /// To the next deadline; false if there is none.
  bool wait() {
    const auto next = core.next_deadline();
    if (next == never) return false;
    time = std::max(time, next);
    core.on_timer(time);
    pump();
    return true;
  }

  /// What has left since the last call.
  [[nodiscard]] std::vector<sent_packet> sent() { return std::exchange(sent_, {}); }
  [[nodiscard]] std::vector<std::uint32_t> sent_psns() {
    std::vector<std::uint32_t> psns;
    for (const auto& each : sent()) psns.push_back(each.header.psn);
    return psns;
  }

 private:
  [[nodiscard]] wire::transport wire_service() const { return on_the_wire(configuration_.kind); }

  [[nodiscard]] time_point now() const noexcept override { return time; }
  [[nodiscard]] bool is_frozen() const noexcept override { return false; }
  [[nodiscard]] packet_sink* peer() override { return this; }
  [[nodiscard]] packet_sink* datagram_path(const path_ends&, std::uint32_t) override {
    return this;
  }
  [[nodiscard]] taken take_receive(std::uint32_t, receive_work& into) override {
    if (receives.empty()) return taken::nothing;
    into = std::move(receives.front());
    receives.pop_front();
    return taken::request;
  }
  [[nodiscard]] memory_domain domain_of_queue(std::uint32_t) override { return domain; }
  [[nodiscard]] bool complete(const send_work& work, status result) override {
    if (completions_left == 0) return false;
    --completions_left;
    sends_completed.push_back({.id = work.id, .result = result});
    return true;
  }
  [[nodiscard]] bool complete(const receive_completion& done) override {
    receives_completed.push_back({.id = done.request.id,
                                  .result = done.result,
                                  .bytes = done.bytes,
                                  .immediate = done.immediate});
    return true;
  }
  void raise(event what) override { events.push_back(what); }
  void state_changed(state) override {}

  [[nodiscard]] bool has_room(std::size_t) const override { return true; }
  [[nodiscard]] bool is_flow_controlled() const override { return false; }
  void add(const wire::headers& header, std::span<const iovec> payload) override {
    auto& made = sent_.emplace_back(sent_packet{.header = header, .payload = {}});
    for (const auto& part : payload) {
      const auto* const bytes = static_cast<const std::byte*>(part.iov_base);
      made.payload.insert(made.payload.end(), bytes, bytes + part.iov_len);
    }
  }
  void flush() override {}

  configuration configuration_;
  memory_region region_;
  std::vector<sent_packet> sent_;

 public:
  alignas(8) std::array<std::byte, 4096> memory{};
  memory_keys keys{16};
  std::deque<receive_work> receives;
  std::vector<completed_send> sends_completed;
  std::vector<completed_receive> receives_completed;
  std::vector<event> events;
  std::size_t completions_left = 1000;  ///< room in the completion queue
  time_point time{std::chrono::hours(1)};
  queue_pair core{configuration_, {.requests = 64, .elements = 1, .inline_bytes = 0}, keys, *this};
};

}  // namespace softverbs::transport
