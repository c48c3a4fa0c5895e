// Ten thousand operations of all kinds through small queues, each byte of them checked.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

constexpr std::size_t bytes = 512;
constexpr std::uint64_t operations_per_round = 4;

/// The memory and the progress of one round: WRITE, READ back, SEND, and an atomic (or a second
/// READ).
struct slot {
  std::uint64_t round = 0;
  unsigned completions_left = 0;
  owned_region written;
  owned_region read_back;
  owned_region sent;
  owned_region old_value;
  owned_region remote;
  owned_region inbox;
};

class soak : public ::testing::Test {
 protected:
  static constexpr std::uint64_t rounds = 2500;
  static constexpr std::size_t window = 4;
  // READ, SEND and the atomic are signaled; the WRITE is proved by the READ. The receive counts,
  // too.
  static constexpr unsigned completions_per_round = 4;

  soak() {
    for (auto& one : slots_) {
      one.written = pair_.a.local_memory(bytes);
      one.read_back = pair_.a.local_memory(bytes);
      one.sent = pair_.a.local_memory(bytes);
      one.old_value = pair_.a.local_memory(8);
      one.remote = pair_.b.shared_memory(bytes);
      one.inbox = pair_.b.local_memory(bytes);
    }
  }

  /// At least one byte for each of two elements: Linux' siw falls over elements without bytes.
  static std::size_t length_of(std::uint64_t round) { return 2 + round * 37 % (bytes - 1); }

  void start(slot& one, std::uint64_t round) {
    one.round = round;
    one.completions_left = completions_per_round;
    const auto length = length_of(round);
    fill_pattern(one.written.bytes(), round);
    fill_pattern(one.sent.bytes(), ~round);
    std::ranges::fill(one.read_back.bytes(), std::byte{});
    const wr_id id{round % window};
    pair_.b.qp.post(recv_wr{.id = id, .into = one.inbox.scatter()}).value();
    const auto written = one.written.bytes().first(length);
    const std::array halves{one.written.gather(written.first(length / 2)),
                            one.written.gather(written.subspan(length / 2))};
    pair_.a.qp.post(write_wr{.id = id, .from = halves, .to = one.remote.remote(), .flags = {}})
        .value();
    pair_.a.qp
        .post(read_wr{.id = id,
                      .from = one.remote.remote(),
                      .into = one.read_back.scatter(one.read_back.bytes().first(length))})
        .value();
    pair_.a.qp.post(send_wr{.id = id, .from = one.sent.gather(one.sent.bytes().first(length))})
        .value();
    if (atomics_) {
      pair_.a.qp
          .post(
              faa_wr{.id = id, .at = counter_.remote(), .add = 3, .into = one.old_value.scatter()})
          .value();
    } else {
      pair_.a.qp.post(read_wr{.id = id, .from = counter_.remote(), .into = one.old_value.scatter()})
          .value();
    }
  }

  void check(const slot& one) const {
    const auto length = length_of(one.round);
    ASSERT_TRUE(same_bytes(one.read_back.bytes().first(length), one.written.bytes().first(length)))
        << "round " << one.round;
    ASSERT_TRUE(all_zero(one.read_back.bytes().subspan(length))) << "round " << one.round;
    ASSERT_TRUE(same_bytes(one.inbox.bytes().first(length), one.sent.bytes().first(length)))
        << "round " << one.round;
    std::uint64_t old = 0;
    std::memcpy(&old, one.old_value.data(), sizeof old);
    ASSERT_EQ(old, atomics_ ? 3 * one.round : 0) << "round " << one.round;
  }

  /// Takes completions until the slot's round is over; rounds end in the order they began.
  void finish(slot& one) {
    wait_until("the end of a round", [&] {
      for (const auto* cq : {&pair_.a.send_cq, &pair_.b.recv_cq}) {
        for (const auto& completion : completions_in(*cq)) {
          if (!completion) throw exception(completion.error());
          --slots_.at(completion.id().value()).completions_left;
        }
      }
      return one.completions_left == 0;
    });
  }

  const bool atomics_ = device_under_test::get().has(capability::atomics);
  connected_pair pair_{{.capabilities = {.max_send_wr = 16, .max_recv_wr = 4, .max_send_sge = 2},
                        .cq_capacity = 32}};
  owned_region counter_ = pair_.b.shared_memory(8);
  std::array<slot, window> slots_;
};

TEST_F(soak, ten_thousand_operations_wrap_around_the_queues) {
  static_assert(rounds * operations_per_round == 10'000);
  for (std::uint64_t round = 0; round < rounds + window; ++round) {
    auto& one = slots_.at(round % window);
    if (round >= window) {
      finish(one);
      check(one);
      if (HasFatalFailure()) return;
    }
    if (round < rounds) start(one, round);
  }
}

}  // namespace
}  // namespace rdmaxx::device_tests
