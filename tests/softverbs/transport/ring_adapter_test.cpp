// Two adapters with rings, the second front end of the transport, over a link that loses, repeats,
// delays and reorders packets: whatever it does, every request is complete once, in order, and the
// bytes are where a perfect link would have put them.
#include "ring_adapter.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace softverbs::transport {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t seeds = 500;
#else
constexpr std::uint64_t seeds = 3000;
#endif

constexpr parameters defaults{
    .destination_qpn = 1,
    .mtu = 1024,
    .rights = access::remote_write | access::remote_read | access::remote_atomic,
    .timeout = 14,
    .retry_count = 7,
    .rnr_retry = 7,
    .min_rnr_timer = 1,
    .max_rd_atomic = 4,
    .max_dest_rd_atomic = 4};

// The memory of an adapter.
constexpr std::uint64_t source_area = 0;  // that requests take bytes from, and the peer reads
constexpr std::uint64_t result_area = std::uint64_t{16} * 1024;   // of reads and atomics
constexpr std::uint64_t receive_area = std::uint64_t{32} * 1024;  // of receives, in slots
constexpr std::uint64_t target_area = std::uint64_t{48} * 1024;   // that the peer changes
constexpr std::uint32_t area_bytes = 16 * 1024;
constexpr std::uint32_t receive_bytes = 1024;
constexpr std::uint32_t receive_slots = area_bytes / receive_bytes;
constexpr std::uint32_t longest = 6000;

struct pair {
  pair(const lossy_link::quality& quality, const parameters& agreed, std::uint64_t seed)
      : link(quality, seed),
        ends{std::make_unique<ring_adapter>(link, 0, agreed, psns[seed % psns.size()]),
             std::make_unique<ring_adapter>(link, 1, agreed, psns[seed % psns.size()])} {}

  /// To the next thing that happens; false if nothing will.
  bool step() {
    const std::array times{link.next_arrival(), ends[0]->next_deadline(), ends[1]->next_deadline()};
    const auto next = std::ranges::min(times);
    if (next == never) return false;
    link.advance_to(next);
    if (next == times[0]) {
      const auto arrived = link.take();
      ends[arrived.to]->receive(arrived.packet);
    } else {
      ends[next == times[1] ? 0 : 1]->on_timer();
    }
    return true;
  }

  static constexpr std::array<std::uint32_t, 4> psns{0, 0xff'fff0, 0x7f'fff8, 12345};
  lossy_link link;
  std::array<std::unique_ptr<ring_adapter>, 2> ends;
};

/// The driver of one adapter, with a model of what its requests have to do.
class driver {
 public:
  driver(pair& on, std::size_t own, std::mt19937_64& random)
      : own_(*on.ends[own]), peer_(*on.ends[1 - own]), random_(random) {
    for (auto& each : std::span(own_.memory).subspan(source_area, area_bytes))
      each = static_cast<std::byte>(random_());
  }

  [[nodiscard]] bool is_done() const { return left_ == 0 && waiting_.empty() && messages_.empty(); }

  /// Some requests and some receives, as there is room. The peer may have to wait for receives.
  void post(driver& other) {
    while (left_ > 0 && !own_.send_ring.is_full() && random_() % 4 != 0) {
      --left_;
      post_one(other);
    }
    own_.ring_doorbell();
    while (posted_ - received_ < receive_slots && random_() % 3 != 0) {
      own_.receive_ring.push({.address = slot_of(posted_),
                              .length = receive_bytes,
                              .lkey = own_.key(),
                              .cookie = static_cast<std::uint16_t>(posted_)});
      ++posted_;
    }
  }

  void poll() {
    while (!own_.completion_ring.is_empty()) {
      const auto entry = own_.completion_ring.pop();
      ASSERT_EQ(entry.result, 0);
      if (entry.is_receive != 0) {
        ASSERT_FALSE(messages_.empty()) << "a message was received twice";
        ASSERT_EQ(entry.cookie, received_);
        ASSERT_EQ(entry.bytes, messages_.front().bytes);
        ASSERT_EQ(entry.immediate, messages_.front().immediate);
        ASSERT_TRUE(holds(slot_of(received_), messages_.front().content));
        messages_.pop_front();
        ++received_;
      } else {
        ASSERT_FALSE(waiting_.empty()) << "a request was completed twice";
        ASSERT_EQ(entry.cookie, waiting_.front().cookie);
        ASSERT_TRUE(holds(waiting_.front().result_at, waiting_.front().result));
        waiting_.pop_front();
      }
    }
  }

  /// When everything is done.
  [[nodiscard]] bool peer_holds_what_was_written() const {
    return std::ranges::equal(std::span(peer_.memory).subspan(target_area, area_bytes), target_);
  }

 private:
  struct request {
    std::uint16_t cookie = 0;
    std::uint64_t result_at = 0;
    std::vector<std::byte> result{};
  };
  struct message {
    std::uint32_t bytes = 0;
    std::uint32_t immediate = 0;
    std::vector<std::byte> content{};
  };

  static std::uint64_t slot_of(std::uint64_t receive) {
    return receive_area + receive % receive_slots * receive_bytes;
  }
  [[nodiscard]] bool holds(std::uint64_t at, std::span<const std::byte> expected) const {
    return std::ranges::equal(std::span(own_.memory).subspan(at, expected.size()), expected);
  }
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  void post_one(driver& other) {
    constexpr std::array kinds{opcode::send, opcode::write, opcode::read, opcode::fetch_add,
                               opcode::write_immediate};
    const auto op = kinds[below(kinds.size())];
    auto length = static_cast<std::uint32_t>(below(below(4) == 0 ? longest : 64));
    if (op == opcode::send) length = std::min(length, receive_bytes);
    if (op == opcode::fetch_add) length = 8;
    send_descriptor wanted{.operation = static_cast<std::uint8_t>(op),
                           .fenced = below(8) == 0,
                           .cookie = cookie_++,
                           .length = length,
                           .address = source_area + below(area_bytes - length + 1),
                           .lkey = own_.key(),
                           .rkey = peer_.key()};
    request made{.cookie = wanted.cookie};
    const auto source = std::span(own_.memory).subspan(wanted.address, length);
    // The first cell of the target is for atomics alone.
    const auto offset = 8 + below(area_bytes - 8 - length + 1);
    switch (op) {
      case opcode::send:
        other.messages_.push_back({.bytes = length, .content{source.begin(), source.end()}});
        break;
      case opcode::write_immediate:
        wanted.operand = below(1U << 31);
        other.messages_.push_back(
            {.bytes = length, .immediate = static_cast<std::uint32_t>(wanted.operand)});
        [[fallthrough]];
      case opcode::write:
        wanted.remote_address = target_area + offset;
        std::ranges::copy(source, target_.begin() + static_cast<std::ptrdiff_t>(offset));
        break;
      case opcode::read: {
        // Each to a place of its own.
        if (results_ + length > area_bytes) wanted.length = length = 0;
        wanted.remote_address = source_area + below(area_bytes - length + 1);
        made.result_at = wanted.address = result_area + results_;
        const auto read = std::span(peer_.memory).subspan(wanted.remote_address, length);
        made.result.assign(read.begin(), read.end());
        results_ += length;
        break;
      }
      default: {
        std::uint64_t cell = 0;
        std::memcpy(&cell, target_.data(), sizeof cell);
        if (results_ + 8 > area_bytes) return;
        made.result_at = wanted.address = result_area + results_;
        results_ += 8;
        const auto* const before = reinterpret_cast<const std::byte*>(&cell);
        made.result.assign(before, before + sizeof cell);
        wanted.remote_address = target_area;
        wanted.operand = below(1000);
        cell += wanted.operand;
        std::memcpy(target_.data(), &cell, sizeof cell);
        break;
      }
    }
    waiting_.push_back(std::move(made));
    own_.send_ring.push(wanted);
  }

  ring_adapter& own_;
  ring_adapter& peer_;
  std::mt19937_64& random_;
  int left_ = 24;
  std::uint16_t cookie_ = 0;
  std::uint64_t results_ = 0;
  std::vector<std::byte> target_ = std::vector<std::byte>(area_bytes);
  std::deque<request> waiting_;   ///< of this side, not complete
  std::deque<message> messages_;  ///< to this side, not received
  std::uint64_t posted_ = 0;      ///< receives
  std::uint64_t received_ = 0;
};

void exchange(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto percent = [&](unsigned most) { return static_cast<double>(random() % most) / 100; };
  auto agreed = defaults;
  agreed.mtu = std::size_t{256} << random() % 5;
  agreed.max_rd_atomic = agreed.max_dest_rd_atomic = static_cast<std::uint8_t>(1 + random() % 4);
  pair on({.loss = percent(10),
           .duplication = percent(10),
           .shortest = 10us,
           .longest = std::chrono::microseconds(10 + random() % 2000)},
          agreed, seed);
  std::array drivers{driver(on, 0, random), driver(on, 1, random)};
  constexpr int most_steps = 200'000;
  for (int i = 0; i < most_steps; ++i) {
    for (std::size_t side = 0; side < 2; ++side) {
      drivers[side].post(drivers[1 - side]);
      drivers[side].poll();
      if (::testing::Test::HasFatalFailure()) return;
    }
    if (drivers[0].is_done() && drivers[1].is_done()) break;
    on.step();
  }
  for (const auto& each : drivers) {
    ASSERT_TRUE(each.is_done());
    ASSERT_TRUE(each.peer_holds_what_was_written());
  }
}

TEST(ring_adapter, whatever_the_link_does_every_request_is_carried_out_once_and_in_order) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    exchange(seed);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(ring_adapter, on_a_dead_link_the_oldest_request_fails_and_the_others_are_flushed) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto agreed = defaults;
    agreed.retry_count = static_cast<std::uint8_t>(seed % 8);
    pair on({.loss = 1}, agreed, seed);
    auto& end = *on.ends[0];
    for (std::uint16_t cookie = 0; cookie < 5; ++cookie) {
      end.send_ring.push({.operation = static_cast<std::uint8_t>(opcode::write),
                          .cookie = cookie,
                          .length = 8,
                          .lkey = end.key(),
                          .rkey = on.ends[1]->key()});
    }
    end.receive_ring.push({.length = 8, .lkey = end.key(), .cookie = 99});
    end.ring_doorbell();
    const auto then = on.link.now();
    for (int i = 0; i < 10'000 && !end.has_failed(); ++i) ASSERT_TRUE(on.step());
    ASSERT_TRUE(end.has_failed());
    // 9.7.6.1.3: 4.096 µs · 2^14 for the first try and each retry, four times that at most.
    EXPECT_GE(on.link.now() - then, (agreed.retry_count + 1) * 67ms);
    EXPECT_LE(on.link.now() - then, (agreed.retry_count + 1) * 4 * 68ms);
    EXPECT_EQ(end.completion_ring.pop().result,
              static_cast<std::uint8_t>(status::retries_exceeded));
    for (std::uint16_t cookie = 1; cookie < 5; ++cookie) {
      const auto entry = end.completion_ring.pop();
      EXPECT_EQ(entry.cookie, cookie);
      EXPECT_EQ(entry.result, static_cast<std::uint8_t>(status::flushed));
    }
    const auto receive = end.completion_ring.pop();
    EXPECT_EQ(receive.cookie, 99);
    EXPECT_EQ(receive.result, static_cast<std::uint8_t>(status::flushed));
    EXPECT_TRUE(end.completion_ring.is_empty());
    EXPECT_EQ(end.next_deadline(), never);
  }
}

TEST(ring_adapter, a_descriptor_that_breaks_a_rule_fails_alone_with_its_queue_pair) {
  pair on({}, defaults, 1);
  auto& end = *on.ends[0];
  end.send_ring.push({.operation = 0x77, .cookie = 5, .lkey = end.key()});
  end.ring_doorbell();
  const auto entry = end.completion_ring.pop();
  EXPECT_EQ(entry.cookie, 5);
  EXPECT_EQ(entry.result, static_cast<std::uint8_t>(status::local_operation_error));
  EXPECT_TRUE(end.has_failed());
  EXPECT_FALSE(on.ends[1]->has_failed());
}

}  // namespace
}  // namespace softverbs::transport
