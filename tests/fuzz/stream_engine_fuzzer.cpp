// libFuzzer target: protocol engines, joined in pairs, in any order of what their programs, drivers
// and the network do, against a model of what a stream is. Either two engines with buffers of their
// own, or two such connections whose engines on one side share a receive_pool and a send_pool.
// Whatever the order:
//   - every byte that is read is the one that was written there;
//   - no frame finds its receiver without a buffer;
//   - once both sides read, everything arrives, whoever wrote without reading before: no deadlock;
//   - there are no more credit frames than data frames and growth: they never answer each other for
//     ever;
//   - the end, a stop, an abort and a loss are told apart;
//   - the streams borrow what the pool has to spare, each up to its growth, and when everything is
//     drained and ended, or a stream has left, nothing is borrowed.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "input.hpp"
#include "unit/stream/engine_pipe.hpp"

namespace {

using namespace rdmaxx::stream_protocol;
using fuzz::require;

// Position p of every stream holds p % period; twice in a row, so that any slice lies together.
constexpr std::size_t period = 251;
constexpr std::size_t longest_write = 512;
constexpr auto text = [] {
  std::array<std::byte, period + longest_write> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i % period);
  return bytes;
}();

std::span<const std::byte> text_at(std::uint64_t position, std::size_t size) {
  return std::span(text).subspan(position % period, size);
}

struct program {
  rdmaxx_test::engine_side side;
  std::uint64_t read = 0;
  bool has_shut_down_write = false;
  bool has_shut_down_read = false;
  bool has_aborted = false;

  program(const agreement& terms, rdmaxx_test::send_ring ring) : side(terms, ring) {}
  explicit program(rdmaxx_test::engine_side of) : side(std::move(of)) {}

  void check(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), longest_write));
      require(std::ranges::equal(part, text_at(read, part.size())));
      read += part.size();
      bytes = bytes.subspan(part.size());
    }
  }
  void read_copy(std::size_t most) {
    std::vector<std::byte> bytes(most);
    const auto available = side.engine.receiving().available();
    const auto count = side.engine.receiving().read(bytes);
    require(count == std::min(most, available));
    check(std::span(bytes).first(count));
  }
  void read_in_place(std::size_t most) {
    const auto bytes = side.engine.receiving().readable();
    require(bytes.empty() == (side.engine.receiving().available() == 0));
    const auto part = bytes.first(std::min(bytes.size(), most));
    check(part);
    side.engine.receiving().consume(part.size());
  }
  void read_everything() {
    while (side.engine.receiving().available() != 0) read_in_place(longest_write);
  }

  void write(std::size_t size, bool in_place) {
    auto& engine = side.engine;
    const auto position = engine.sending().written_position();
    const bool could =
        in_place ? engine.sending().can_write_in_place() : engine.sending().can_write();
    const bool may = engine.sending().check().has_value();
    const auto bytes = text_at(position, size);
    const auto count =
        in_place ? engine.sending().write_in_place(bytes, position) : engine.sending().write(bytes);
    require(count <= size && engine.sending().written_position() == position + count);
    require(may || (could && count == 0));
    if (may && size != 0) require(could == (count != 0));
  }
};

/// Two ends of one connection, until it ends.
class connection {
 public:
  connection(program here, program there) : programs_{std::move(here), std::move(there)} {}

  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] program& side(std::size_t which) { return programs_[which]; }
  [[nodiscard]] const program& side(std::size_t which) const { return programs_[which]; }
  [[nodiscard]] bool is_aborted() const {
    return programs_[0].has_aborted || programs_[1].has_aborted;
  }

  void check() {
    for (std::size_t i = 0; i < 2; ++i) {
      auto& one = programs_[i];
      const auto& other = programs_[i ^ 1];
      const auto& engine = one.side.engine;
      require(!one.side.receiver_not_ready && !one.side.too_long);
      require(one.read + engine.receiving().available() <=
              other.side.engine.sending().written_position());
      require(engine.sending().released_position() <= engine.sending().written_position());
      require(engine.sending().in_flight() <= engine.sending().most_in_flight());
      require(engine.sending().credits() <= engine.terms().peer.most_credits());
      require(engine.receiving().borrowed() <= engine.terms().own.growth);
      if (is_aborted()) continue;
      require(!engine.failure());
      if (engine.receiving().at_end() && !one.has_shut_down_read) {
        require(!other.side.engine.sending().check().has_value());
        require(one.read == other.side.engine.sending().written_position());
      }
    }
  }

  /// True if something was read.
  bool move() {
    pump(programs_[0].side, programs_[1].side);
    check();
    const auto before = programs_[0].read + programs_[1].read;
    for (auto& one : programs_) one.read_everything();
    return before != programs_[0].read + programs_[1].read;
  }

  void check_drained() {
    for (std::size_t i = 0; i < 2; ++i) {
      auto& one = programs_[i];
      const auto& sending = one.side.engine.sending();
      require(sending.can_write() && sending.in_flight() == 0);
      require(sending.released_position() == sending.written_position());
      if (one.has_shut_down_read) continue;
      require(one.read == programs_[i ^ 1].side.engine.sending().written_position());
    }
  }

  void shut_down() {
    for (std::size_t i = 0; i < 2; ++i) {
      const auto written = programs_[i].side.engine.sending().check();
      require(written.has_value() !=
              (programs_[i].has_shut_down_write || programs_[i ^ 1].has_shut_down_read));
      programs_[i].side.engine.sending().shutdown();
    }
  }

  /// Both have shut down, and everything was drained.
  void check_end() {
    for (auto& one : programs_) {
      auto& engine = one.side.engine;
      require(engine.receiving().at_end() && engine.wants_disconnect());
      require(engine.receiving().borrowed() == 0);
      engine.connection_lost();
      require(!engine.failure() && engine.receiving().at_end());
      const auto& numbers = engine.statistics();
      require(numbers.credit_frames_sent <=
              numbers.frames_received - numbers.credit_frames_received + engine.terms().own.growth);
    }
    leave();
  }

  // Whoever did not abort hears of it by a reset, or, if there was no room for one, by the end of
  // the connection.
  void finish_aborted() {
    pump(programs_[0].side, programs_[1].side);
    for (std::size_t i = 0; i < 2; ++i) {
      auto& one = programs_[i];
      auto& engine = one.side.engine;
      require(!one.side.receiver_not_ready);
      if (!one.has_aborted && !engine.failure()) {
        require(programs_[i ^ 1].side.engine.wants_disconnect());
        lose(i);
        continue;
      }
      require(engine.wants_disconnect() && !engine.receiving().at_end() &&
              engine.receiving().available() == 0);
      if (!engine.failure()) std::abort();
      require(*engine.failure() == std::errc::connection_reset ||
              (one.has_aborted && *engine.failure() == std::errc::connection_aborted));
    }
    leave();
  }

  void finish_lost() {
    for (std::size_t i = 0; i < 2; ++i) lose(i);
    leave();
  }

 private:
  // What has arrived can still be read; then it is the end only if the peer had said so.
  void lose(std::size_t which) {
    auto& one = programs_[which];
    auto& engine = one.side.engine;
    while (one.side.take_landed()) {
    }
    engine.connection_lost();
    one.read_everything();
    require(engine.receiving().can_read() && engine.wants_disconnect() && !engine.next_send());
    require(engine.receiving().at_end() == engine.receiving().check().has_value());
    if (!is_aborted() && engine.receiving().at_end() && !one.has_shut_down_read)
      require(one.read == programs_[which ^ 1].side.engine.sending().written_position());
  }

  void leave() {
    for (auto& one : programs_) one.side.leave();
    is_over_ = true;
  }

  std::array<program, 2> programs_;
  bool is_over_ = false;
};

class world {
 public:
  explicit world(fuzz::input& input) : input_(input) {
    const bool is_shared = input_.chance();
    const greeting a = any_greeting();
    const greeting b = any_greeting();
    const auto at_b = negotiate(b, a).value();
    const auto at_a = negotiate(a, answer(b, at_b)).value();
    const auto ring_a = any_ring();
    const auto ring_b = any_ring();
    if (!is_shared) {
      connections_.emplace_back(program(at_a, ring_a), program(at_b, ring_b));
      return;
    }
    spare_ = static_cast<std::uint32_t>(input_.below(16));
    receives_ = std::make_shared<rdmaxx_test::receive_queue>(at_a.own, 2, spare_);
    sends_ = std::make_shared<rdmaxx_test::send_buffers>(ring_a, send_pool::use::by_many);
    for (int i = 0; i < 2; ++i) {
      connections_.emplace_back(
          program(rdmaxx_test::engine_side(at_a, receives_, sends_,
                                           static_cast<std::uint32_t>(ring_a.slots))),
          program(at_b, ring_b));
    }
  }

  void run() {
    while (!input_.is_empty()) {
      const auto choice = input_.byte();
      auto& chosen = connections_[(choice >> 6) % connections_.size()];
      if (!chosen.is_over()) step(chosen, choice);
      check();
    }
    for (auto& each : connections_)
      if (!each.is_over() && each.is_aborted()) each.finish_aborted();
    drain();
    for (auto& each : connections_)
      if (!each.is_over()) each.shut_down();
    drain();
    check();
    for (auto& each : connections_)
      if (!each.is_over()) each.check_end();
    check_nothing_is_borrowed();
  }

 private:
  greeting any_greeting() {
    return {.window = {.buffers = 3 + static_cast<std::uint32_t>(input_.below(12)),
                       .buffer_bytes = 64 + static_cast<std::uint32_t>(input_.below(64)),
                       .growth = static_cast<std::uint32_t>(input_.below(10))},
            .first_sequence = 0U - static_cast<std::uint32_t>(input_.byte())};
  }
  rdmaxx_test::send_ring any_ring() {
    return {.slots = 2 + input_.below(6), .slot_bytes = 64 + input_.below(64)};
  }

  void step(connection& chosen, std::uint8_t choice) {
    auto& one = chosen.side(choice & 1);
    auto& other = chosen.side((choice & 1) ^ 1);
    auto& engine = one.side.engine;
    switch ((choice >> 1) % 32) {
      case 0:
      case 1:
      case 2:
        one.write(input_.byte(), false);
        break;
      case 3:
        one.write(2 * std::size_t{input_.byte()}, true);
        break;
      case 4:
        engine.sending().flush();
        break;
      case 5:
      case 6:
      case 7:
        one.side.send();
        break;
      case 8:
        while (one.side.send()) {
        }
        break;
      case 9:
      case 10:
      case 11:
        one.side.deliver_to(other.side);
        break;
      case 12:
        while (one.side.deliver_to(other.side)) {
        }
        break;
      case 13:
        one.side.complete_send();
        break;
      case 14:
        one.side.complete_sends();
        break;
      case 15:
      case 16:
        one.side.post_receive();
        break;
      case 17:
        while (one.side.post_receive()) {
        }
        break;
      case 18:
        one.read_copy(input_.byte());
        break;
      case 19:
        one.read_in_place(input_.byte());
        break;
      case 20:
      case 21:
        one.read_everything();
        break;
      case 22:
        pump(one.side, other.side);
        break;
      case 23:
        one.has_shut_down_write = true;
        engine.sending().shutdown();
        break;
      case 24:
        one.has_shut_down_read = true;
        engine.receiving().shutdown();
        break;
      case 25:
        // Rare, because nothing happens any more afterwards. Nobody is told behind the end.
        if (input_.byte() % 8 != 0 || engine.wants_disconnect()) break;
        one.has_aborted = true;
        engine.abort();
        break;
      case 26:
        if (input_.byte() % 8 != 0) break;
        chosen.finish_lost();
        break;
      case 27:
        one.side.land_at(other.side);
        break;
      case 28:
        one.side.take_landed();
        break;
      case 29:
        engine.sending().announce(16 * std::size_t{input_.byte()});
        break;
      default:
        engine.sending().flush();
        pump(one.side, other.side);
        one.read_everything();
        break;
    }
  }

  void check() {
    std::uint32_t borrowed = 0;
    for (auto& each : connections_) {
      borrowed += each.side(0).side.engine.receiving().borrowed();
      if (!each.is_over()) each.check();
    }
    if (receives_) require(borrowed + receives_->pool.spare() == spare_);
  }

  // However full everything is: once both read, everything arrives, and the stream can end.
  void drain() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& each : connections_)
        if (!each.is_over()) moved = each.move() || moved;
    }
    for (auto& each : connections_)
      if (!each.is_over()) each.check_drained();
  }

  void check_nothing_is_borrowed() const {
    if (!receives_) return;
    require(receives_->pool.spare() == spare_);
    require(receives_->posted.size() == receives_->pool.size());
    require(!receives_->pool.has_unposted());
    require(sends_->pool.available() == sends_->pool.size());
  }

  fuzz::input& input_;
  std::uint32_t spare_ = 0;  // of the receive buffers that are shared
  std::shared_ptr<rdmaxx_test::receive_queue> receives_;
  std::shared_ptr<rdmaxx_test::send_buffers> sends_;
  std::deque<connection> connections_;
};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input input(std::span(data, size));
  world(input).run();
  return 0;
}
