// libFuzzer target: two protocol engines, joined, in any order of what their programs, drivers and
// the network do, against a model of what a stream is. Whatever the order:
//   - every byte that is read is the one that was written there;
//   - no frame finds its receiver without a buffer, and no control frame without a credit;
//   - once both sides read, everything arrives, whoever wrote without reading before: no deadlock;
//   - credit frames are at most a third of the others: they never answer each other for ever;
//   - the end, a stop, an abort and a loss are told apart.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
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

class world {
 public:
  explicit world(fuzz::input& input) : input_(input) {
    const greeting a = any_greeting();
    const greeting b = any_greeting();
    const auto at_b = negotiate(b, a).value();
    const auto at_a = negotiate(a, answer(b, at_b)).value();
    programs_.reserve(2);
    programs_.emplace_back(at_a, any_ring());
    programs_.emplace_back(at_b, any_ring());
  }

  void run() {
    while (!input_.is_empty() && !is_lost_) {
      step();
      check();
    }
    if (is_lost_) {
      finish_lost();
    } else if (is_aborted()) {
      finish_aborted();
    } else {
      finish();
    }
  }

 private:
  greeting any_greeting() {
    return {.window = {.buffers = 8 + static_cast<std::uint32_t>(input_.below(9)),
                       .buffer_bytes = 64 + static_cast<std::uint32_t>(input_.below(64))},
            .first_sequence = 0U - static_cast<std::uint32_t>(input_.byte())};
  }
  rdmaxx_test::send_ring any_ring() {
    return {.slots = 2 + input_.below(6), .slot_bytes = 64 + input_.below(64)};
  }

  void step() {
    const auto choice = input_.byte();
    auto& one = programs_[choice & 1];
    auto& other = programs_[(choice & 1) ^ 1];
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
        is_lost_ = true;
        break;
      default:
        engine.sending().flush();
        pump(one.side, other.side);
        one.read_everything();
        break;
    }
  }

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
      require(engine.sending().credits() <= engine.terms().peer.buffers);
      if (is_aborted()) continue;
      require(!engine.failure());
      require(engine.sending().credits() > 0);
      if (engine.receiving().at_end() && !one.has_shut_down_read) {
        require(!other.side.engine.sending().check().has_value());
        require(one.read == other.side.engine.sending().written_position());
      }
    }
  }

  // However full everything is: once both read, everything arrives, and the stream can end.
  void drain() {
    for (;;) {
      pump(programs_[0].side, programs_[1].side);
      check();
      const auto before = programs_[0].read + programs_[1].read;
      for (auto& one : programs_) one.read_everything();
      if (before == programs_[0].read + programs_[1].read) break;
    }
    for (auto& one : programs_) {
      require(one.side.engine.sending().can_write() && one.side.engine.sending().in_flight() == 0);
      require(one.side.engine.sending().released_position() ==
              one.side.engine.sending().written_position());
    }
    for (std::size_t i = 0; i < 2; ++i) {
      if (programs_[i].has_shut_down_read) continue;
      require(programs_[i].read == programs_[i ^ 1].side.engine.sending().written_position());
    }
  }

  void finish() {
    drain();
    for (std::size_t i = 0; i < 2; ++i) {
      const auto written = programs_[i].side.engine.sending().check();
      require(written.has_value() !=
              (programs_[i].has_shut_down_write || programs_[i ^ 1].has_shut_down_read));
      programs_[i].side.engine.sending().shutdown();
    }
    drain();
    std::uint64_t credit_frames = 0;
    std::uint64_t other_frames = 0;
    for (auto& one : programs_) {
      auto& engine = one.side.engine;
      require(engine.receiving().at_end() && engine.wants_disconnect());
      engine.connection_lost();
      require(!engine.failure() && engine.receiving().at_end());
      credit_frames += engine.statistics().credit_frames_sent;
      other_frames += engine.statistics().frames_sent - engine.statistics().credit_frames_sent;
    }
    require(3 * credit_frames <= other_frames);
  }

  // Whoever did not abort hears of it.
  void finish_aborted() {
    pump(programs_[0].side, programs_[1].side);
    for (auto& one : programs_) {
      const auto& engine = one.side.engine;
      require(!one.side.receiver_not_ready);
      require(engine.wants_disconnect() && !engine.receiving().at_end() &&
              engine.receiving().available() == 0);
      if (!engine.failure()) std::abort();
      require(*engine.failure() == std::errc::connection_reset ||
              (one.has_aborted && *engine.failure() == std::errc::connection_aborted));
    }
  }

  // What has arrived can still be read; then it is the end only if the peer had said so.
  void finish_lost() {
    const bool aborted = is_aborted();
    for (auto& one : programs_) one.side.engine.connection_lost();
    for (std::size_t i = 0; i < 2; ++i) {
      auto& one = programs_[i];
      auto& engine = one.side.engine;
      one.read_everything();
      require(engine.receiving().can_read() && engine.wants_disconnect() && !engine.next_send());
      require(engine.receiving().at_end() == engine.receiving().check().has_value());
      if (!aborted && engine.receiving().at_end() && !one.has_shut_down_read)
        require(one.read == programs_[i ^ 1].side.engine.sending().written_position());
    }
  }

  fuzz::input& input_;
  std::vector<program> programs_;
  bool is_lost_ = false;
};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input input(std::span(data, size));
  world(input).run();
  return 0;
}
