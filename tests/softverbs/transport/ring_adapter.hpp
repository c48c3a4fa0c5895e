// A second front end of the transport, as small as one can be that moves bytes: an adapter with
// rings of descriptors in memory, as its driver and the device would share them. The driver writes
// descriptors and rings a doorbell; the adapter reads them, and writes completions into a ring that
// the driver polls. Nothing here knows verbs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <transport/front_end.hpp>
#include <transport/memory_keys.hpp>
#include <transport/queue_pair.hpp>
#include <wire/packet.hpp>

#include "lossy_link.hpp"

namespace softverbs::transport {

/// What the driver writes for a send request.
struct send_descriptor {
  std::uint8_t operation = 0;  ///< an opcode
  std::uint8_t fenced = 0;
  std::uint16_t cookie = 0;
  std::uint32_t length = 0;
  std::uint64_t address = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t operand = 0;  ///< immediate, or what is added or compared
  std::uint64_t swap = 0;
};

struct receive_descriptor {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t lkey = 0;
  std::uint16_t cookie = 0;
};

/// What the adapter writes when a request is complete.
struct completion_entry {
  std::uint8_t is_receive = 0;
  std::uint8_t result = 0;  ///< a status
  std::uint16_t cookie = 0;
  std::uint32_t bytes = 0;
  std::uint32_t immediate = 0;
};

/// A ring of entries and the two counters that its ends share.
template <class Entry, std::size_t Size>
struct descriptor_ring {
  std::array<Entry, Size> entries{};
  std::uint32_t produced = 0;
  std::uint32_t consumed = 0;

  [[nodiscard]] bool is_empty() const noexcept { return produced == consumed; }
  [[nodiscard]] bool is_full() const noexcept { return produced - consumed == Size; }
  void push(const Entry& entry) { entries[produced++ % Size] = entry; }
  [[nodiscard]] Entry pop() { return entries[consumed++ % Size]; }
};

class ring_adapter final : private front_end, private packet_sink {
 public:
  static constexpr std::size_t ring_size = 32;
  static constexpr memory_domain domain{7};

  ring_adapter(lossy_link& link, std::size_t own_end, const parameters& agreed,
               std::uint32_t first_psn)
      : link_(link), peer_end_(1 - own_end) {
    region_.start = memory.data();
    region_.size = memory.size();
    region_.rights = agreed.rights | access::local_write;
    region_.domain = domain;
    static_cast<void>(keys_.add(region_));
    core_.agreed = agreed;
    core_.enter(state::init);
    core_.enter(state::rtr, first_psn);
    core_.enter(state::rts, first_psn);
  }

  // --- what the driver sees ---
  descriptor_ring<send_descriptor, ring_size> send_ring;
  descriptor_ring<receive_descriptor, ring_size> receive_ring;
  descriptor_ring<completion_entry, 4 * ring_size> completion_ring;
  alignas(8) std::array<std::byte, std::size_t{64} * 1024> memory{};

  [[nodiscard]] std::uint32_t key() const noexcept { return region_.key; }
  [[nodiscard]] bool has_failed() const noexcept { return core_.current() == state::error; }
  /// Descriptors have been written.
  void ring_doorbell() {
    while (!send_ring.is_empty() && core_.sends.has_slot()) fetch(send_ring.pop());
    progress();
  }

  // --- what the link sees ---
  void receive(std::span<const std::byte> bytes) {
    const auto packet = wire::decode(bytes);
    if (!packet) return;
    core_.receive({.packet = *packet, .source = {}, .destination = {}});
    progress();
  }
  [[nodiscard]] time_point next_deadline() const { return core_.next_deadline(); }
  void on_timer() {
    core_.on_timer(link_.now());
    progress();
  }

 private:
  void fetch(const send_descriptor& from) {
    const auto slot = core_.sends.next_slot();
    auto& work = core_.sends[slot];
    work = {.id = from.cookie,
            .op = static_cast<opcode>(from.operation),
            .signaled = true,
            .fenced = from.fenced != 0,
            .elements = 1,
            .bytes = from.length,
            .remote_address = from.remote_address,
            .rkey = from.rkey,
            .immediate = static_cast<std::uint32_t>(from.operand),
            .compare_or_add = from.operand,
            .swap = from.swap};
    if (!is_valid(core_.made.kind, work)) work.failed = status::local_operation_error;
    core_.sends.elements(slot)[0] = {
        .address = from.address, .length = from.length, .key = from.lkey};
    core_.posted(1);
  }
  void progress() {
    while (core_.answer()) {
    }
    while (core_.send()) {
    }
  }

  // --- what the transport asks for ---
  [[nodiscard]] time_point now() const noexcept override { return link_.now(); }
  [[nodiscard]] bool is_frozen() const noexcept override { return false; }
  [[nodiscard]] packet_sink* peer() override { return this; }
  [[nodiscard]] packet_sink* datagram_path(const path_ends&, std::uint32_t) override {
    return nullptr;  // this adapter has connections alone
  }
  [[nodiscard]] taken take_receive(std::uint32_t, receive_work& into) override {
    if (receive_ring.is_empty()) return taken::nothing;
    const auto from = receive_ring.pop();
    into.id = from.cookie;
    into.domain = domain;
    into.into.assign(1, {.address = from.address, .length = from.length, .key = from.lkey});
    return taken::request;
  }
  [[nodiscard]] memory_domain domain_of_queue(std::uint32_t) override { return domain; }
  [[nodiscard]] bool write(const completion_entry& entry) {
    if (completion_ring.is_full()) return false;
    completion_ring.push(entry);
    return true;
  }
  [[nodiscard]] bool complete(const send_work& work, status result) override {
    return write({.result = static_cast<std::uint8_t>(result),
                  .cookie = static_cast<std::uint16_t>(work.id)});
  }
  [[nodiscard]] bool complete(const receive_completion& done) override {
    return write({.is_receive = 1,
                  .result = static_cast<std::uint8_t>(done.result),
                  .cookie = static_cast<std::uint16_t>(done.request.id),
                  .bytes = done.bytes,
                  .immediate = done.immediate});
  }
  void raise(event) override {}
  void state_changed(state) override {}

  [[nodiscard]] bool has_room(std::size_t) const override { return true; }
  [[nodiscard]] bool is_flow_controlled() const override { return false; }
  void add(const wire::headers& header, std::span<const iovec> payload) override {
    std::vector<std::byte> packet(wire::most_header_bytes);
    std::size_t bytes = 0;
    for (const auto& part : payload) bytes += part.iov_len;
    auto padded = header;
    padded.pad_bytes = static_cast<std::uint8_t>(-bytes & 3);
    packet.resize(wire::encode(padded, packet.data()));
    for (const auto& part : payload) {
      const auto* const from = static_cast<const std::byte*>(part.iov_base);
      packet.insert(packet.end(), from, from + part.iov_len);
    }
    packet.resize(packet.size() + padded.pad_bytes + wire::icrc_bytes);
    link_.send(peer_end_, packet);
  }
  void flush() override {}

  lossy_link& link_;
  std::size_t peer_end_;
  memory_keys keys_{4};
  memory_region region_;
  queue_pair core_{{.kind = service::rc, .qpn = 1, .domain = domain},
                   {.requests = ring_size, .elements = 1, .inline_bytes = 0},
                   keys_,
                   *this};
};

}  // namespace softverbs::transport
