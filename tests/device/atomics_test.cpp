// COMPARE AND SWAP, FETCH AND ADD on the peer's memory.

#include <array>
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

std::uint64_t word_of(const memory_region& region) {
  std::uint64_t word = 0;
  std::memcpy(&word, region.data(), sizeof word);
  return word;
}

void set_word(const memory_region& region, std::uint64_t word) {
  std::memcpy(region.data(), &word, sizeof word);
}

class atomics : public ::testing::Test {
 protected:
  void SetUp() override { RDMAXX_NEEDS(capability::atomics); }
};

TEST_F(atomics, compare_and_swap_swaps_what_it_expects) {
  const connected_pair pair;
  const auto target = pair.b.shared_memory(8);
  const auto old = pair.a.local_memory(8);
  set_word(target, 0x1122334455667788);

  pair.a.qp
      .post(cas_wr{.at = target.remote(),
                   .expected = 0x1122334455667788,
                   .desired = 0x99aabbccddeeff00,
                   .into = old.scatter()})
      .value();

  EXPECT_EQ(wait_for_success(pair.a.send_cq).opcode(), wc_opcode::compare_and_swap);
  EXPECT_EQ(word_of(old), 0x1122334455667788U);
  EXPECT_EQ(word_of(target), 0x99aabbccddeeff00U);
}

TEST_F(atomics, compare_and_swap_leaves_anything_else) {
  const connected_pair pair;
  const auto target = pair.b.shared_memory(8);
  const auto old = pair.a.local_memory(8);
  set_word(target, 42);

  pair.a.qp.post(cas_wr{.at = target.remote(), .expected = 41, .desired = 7, .into = old.scatter()})
      .value();

  wait_for_success(pair.a.send_cq);
  EXPECT_EQ(word_of(old), 42U);
  EXPECT_EQ(word_of(target), 42U);
}

TEST_F(atomics, fetch_and_add_adds_and_returns_the_old_value) {
  const connected_pair pair;
  const auto target = pair.b.shared_memory(8);
  const auto old = pair.a.local_memory(8);
  set_word(target, 0xffffffff);

  pair.a.qp.post(faa_wr{.id = wr_id{3}, .at = target.remote(), .add = 2, .into = old.scatter()})
      .value();

  const auto done = wait_for_success(pair.a.send_cq);
  EXPECT_EQ(done.opcode(), wc_opcode::fetch_and_add);
  EXPECT_EQ(done.id(), wr_id{3});
  EXPECT_EQ(word_of(old), 0xffffffffU);
  EXPECT_EQ(word_of(target), 0x100000001U);
}

TEST_F(atomics, fetch_and_add_wraps_around) {
  const connected_pair pair;
  const auto target = pair.b.shared_memory(8);
  const auto old = pair.a.local_memory(8);
  set_word(target, ~std::uint64_t{0});

  pair.a.qp.post(faa_wr{.at = target.remote(), .add = 5, .into = old.scatter()}).value();

  wait_for_success(pair.a.send_cq);
  EXPECT_EQ(word_of(old), ~std::uint64_t{0});
  EXPECT_EQ(word_of(target), 4U);
}

TEST_F(atomics, no_addition_of_either_side_is_lost) {
  constexpr std::uint64_t additions = 50;
  const connected_pair pair;
  // Both sides add to the same word: a region of b, which b reaches through a second connection's
  // view.
  const auto target = pair.b.shared_memory(8);
  const auto old = pair.a.local_memory(8);
  const connected_pair second;
  const auto old_second = second.a.local_memory(8);
  const auto same_memory =
      second.b.pd.register_shared(unsafe, target.bytes(), access::remote_atomic).value();

  for (std::uint64_t i = 0; i < additions; ++i) {
    pair.a.qp.post(faa_wr{.at = target.remote(), .add = 1, .into = old.scatter()}).value();
    second.a.qp
        .post(faa_wr{.at = same_memory.remote(), .add = 1'000'000, .into = old_second.scatter()})
        .value();
  }
  wait_for_successes(pair.a.send_cq, additions);
  wait_for_successes(second.a.send_cq, additions);

  EXPECT_EQ(word_of(target), additions * 1'000'001);
}

}  // namespace
}  // namespace rdmaxx::device_tests
