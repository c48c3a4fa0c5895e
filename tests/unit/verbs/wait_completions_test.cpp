#include <rdmaxx/verbs/wait_completions.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/core/clock.hpp>

#include "unit/verbs/fake_verbs.hpp"

using namespace rdmaxx;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// What a wait does, step by step; nothing in it is real.
struct script {
  std::vector<std::string> steps;
  std::function<bool()> found = [] { return false; };
  std::function<void()> while_asleep = [] {};

  result<bool> wait(library_clock::time_point deadline, spin_policy& spin) {
    return detail::wait_until_found(
        deadline, spin,
        [this]() -> result<bool> {
          if (steps.empty() || steps.back() != "poll") steps.emplace_back("poll");
          return found();
        },
        [this]() -> result<void> {
          steps.emplace_back("arm");
          return {};
        },
        [this](library_clock::time_point) -> result<void> {
          steps.emplace_back("sleep");
          while_asleep();
          return {};
        });
  }
};

class wait_completions_test : public testing::Test {
 protected:
  fake_setup setup;
  completion_channel channel = setup.ctx.create_completion_channel().value();
  completion_queue cq = setup.ctx.create_cq({.capacity = 8, .channel = channel}).value();
  std::array<work_completion, 4> room;

  void complete(std::uint64_t id) const {
    ibv_wc native{};
    native.wr_id = id;
    fake_device::of(cq).completions.push_back(native);
  }
};

}  // namespace

TEST(spin_policy_test, a_fixed_one_is_the_same_in_every_wait) {
  spin_policy fixed(50us);
  for (const bool has_found : {false, false, true}) {
    EXPECT_EQ(fixed.next(), 50us);
    fixed.report(has_found);
  }
  EXPECT_EQ(spin_policy().next(), 0us);
}

TEST(spin_policy_test, backs_off_after_misses_and_a_hit_resets) {
  auto spin = spin_policy::backing_off(100us);
  const auto skipped = [&] {
    int count = 0;
    while (spin.next() == 0us) ++count;
    return count;
  };
  std::vector<int> skips;
  for (int miss = 0; miss < 8; ++miss) {
    skips.push_back(skipped());
    spin.report(false);
  }
  EXPECT_THAT(skips, ElementsAre(0, 1, 2, 4, 8, 16, 31, 31));

  EXPECT_EQ(skipped(), 31);
  spin.report(true);
  EXPECT_EQ(skipped(), 0);
  spin.report(false);
  EXPECT_EQ(skipped(), 1);
}

TEST(wait_until_found_test, polls_arms_polls_again_and_only_then_sleeps) {
  script one;
  bool is_there = false;
  one.found = [&] { return is_there; };
  one.while_asleep = [&] { is_there = true; };
  spin_policy spin;

  EXPECT_TRUE(one.wait(library_clock::time_point::max(), spin).value());

  EXPECT_THAT(one.steps, ElementsAre("poll", "arm", "poll", "sleep", "arm", "poll"));
}

TEST(wait_until_found_test, what_is_there_needs_no_arming) {
  script one;
  one.found = [] { return true; };
  spin_policy spin;

  EXPECT_TRUE(one.wait(library_clock::time_point::max(), spin).value());

  EXPECT_THAT(one.steps, ElementsAre("poll"));
}

TEST(wait_until_found_test, a_deadline_that_has_passed_looks_and_does_not_sleep) {
  script one;
  spin_policy spin;

  EXPECT_FALSE(one.wait(library_clock::now(), spin).value());

  EXPECT_THAT(one.steps, ElementsAre("poll", "arm", "poll"));
}

TEST(wait_until_found_test, a_wait_that_always_spins_never_arms) {
  script one;
  int polls = 0;
  one.found = [&] { return ++polls == 1000; };
  spin_policy spin(spin_policy::always);

  EXPECT_TRUE(one.wait(library_clock::time_point::max(), spin).value());

  EXPECT_THAT(one.steps, ElementsAre("poll"));
}

TEST(wait_until_found_test, a_stopped_clock_keeps_no_thread_spinning) {
  const manual_clock time;
  script one;
  bool is_there = false;
  one.found = [&] { return is_there; };
  one.while_asleep = [&] { is_there = true; };
  spin_policy spin(20us);

  EXPECT_TRUE(one.wait(deadline_after(1s), spin).value());
}

TEST_F(wait_completions_test, returns_what_has_completed) {
  complete(1);
  complete(2);

  const auto found = wait_completions(cq, room).value();

  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].id(), wr_id(2));
}

TEST_F(wait_completions_test, is_an_error_when_nothing_completes_in_time) {
  EXPECT_EQ(wait_completions(cq, room, 1ms).error(), std::errc::timed_out);
  EXPECT_EQ(wait_completions(cq, room, 0ms).error(), std::errc::timed_out);
  EXPECT_EQ(wait_completions(setup.cq, room, 1ms).error(), std::errc::timed_out)
      << "without a channel";
}

TEST_F(wait_completions_test, one_completion_or_the_error_that_there_was_none) {
  complete(3);
  EXPECT_EQ(wait_completion(cq, 1ms).value().id(), wr_id(3));

  const auto late = wait_completion(cq, 1ms);

  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error(), std::errc::timed_out);
  EXPECT_THAT(late.error().message(),
              HasSubstr("timed out after 1 ms waiting for a completion on"));
}

TEST_F(wait_completions_test, a_broken_queue_is_an_error) {
  fake_device::of(cq).poll_failure = -EINVAL;

  EXPECT_EQ(wait_completions(cq, room).error(), std::errc::invalid_argument);
}

TEST_F(wait_completions_test, takes_the_events_that_wait_in_the_channel) {
  fake_device::of(channel).raise(cq);
  fake_device::of(channel).raise(cq);

  EXPECT_EQ(wait_completions(cq, room, 1ms).error(), std::errc::timed_out);

  EXPECT_FALSE(channel.try_get_event().value().has_value());
}
