#include <engine/timer_queue.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

namespace softverbs::engine {
namespace {

using namespace std::chrono_literals;

constexpr time_point at(std::chrono::milliseconds when) { return time_point(when); }

class timers : public testing::Test {
 protected:
  void set(endpoint& who, std::chrono::milliseconds when) {
    const std::lock_guard lock(who.mutex);
    queue_.set(who, at(when));
  }
  /// Notes the number when its time has come.
  void note(int number, std::chrono::milliseconds when) {
    queue_.at(at(when), [this, number] { ran_.push_back(number); });
  }
  /// What runs until then; endpoints by their queue pair numbers.
  std::vector<int> run_until(std::chrono::milliseconds now) {
    ran_.clear();
    while (queue_.run_next(at(now),
                           [this](endpoint& who) { ran_.push_back(static_cast<int>(who.qpn)); })) {
    }
    return ran_;
  }

  std::vector<time_point> told_;
  timer_queue queue_{[this](time_point when) { told_.push_back(when); }};
  std::vector<int> ran_;
  std::shared_ptr<endpoint> one_ = std::make_shared<endpoint>(1);
  std::shared_ptr<endpoint> two_ = std::make_shared<endpoint>(2);
};

using ran = std::vector<int>;

TEST_F(timers, run_in_the_order_of_their_times) {
  set(*one_, 3ms);
  set(*two_, 1ms);
  note(10, 2ms);
  EXPECT_EQ(queue_.next_due(), at(1ms));
  EXPECT_EQ(run_until(0ms), ran{});
  EXPECT_EQ(run_until(2ms), (ran{2, 10})) << "those of this very time, too";
  EXPECT_EQ(queue_.next_due(), at(3ms));
  EXPECT_EQ(run_until(5ms), ran{1});
  EXPECT_EQ(queue_.next_due(), never);
}

TEST_F(timers, of_the_same_time_run_in_the_order_in_which_they_were_set) {
  ran all;
  for (int i = 10; i < 100; ++i) {
    note(i, 1ms);
    all.push_back(i);
  }
  set(*one_, 1ms);
  all.push_back(1);
  EXPECT_EQ(run_until(1ms), all);
}

TEST_F(timers, of_an_endpoint_are_replaced_by_earlier_ones_alone) {
  set(*one_, 5ms);
  set(*one_, 2ms);
  set(*one_, 9ms);
  EXPECT_EQ(run_until(2ms), ran{1});
  EXPECT_EQ(run_until(20ms), ran{}) << "one timer is all that an endpoint has";
}

TEST_F(timers, may_be_set_anew_once_they_have_run) {
  set(*one_, 1ms);
  EXPECT_EQ(run_until(1ms), ran{1});
  set(*one_, 7ms);
  EXPECT_EQ(run_until(7ms), ran{1});
}

TEST_F(timers, an_endpoint_sets_its_next_one_while_its_timer_runs) {
  set(*one_, 1ms);
  int calls = 0;
  while (queue_.run_next(at(1ms), [&](endpoint& who) {
    ++calls;
    queue_.set(who, at(4ms));  // its lock is held
  })) {
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(queue_.next_due(), at(4ms));
}

TEST_F(timers, functions_run_with_no_lock_held) {
  queue_.at(at(1ms), [this] { note(11, 1ms); });
  EXPECT_EQ(run_until(1ms), ran{11});
}

TEST_F(timers, keep_an_endpoint_until_they_have_run) {
  const std::weak_ptr<endpoint> watched = one_;
  set(*one_, 1ms);
  one_.reset();
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(run_until(1ms), ran{1});
  EXPECT_TRUE(watched.expired());
}

TEST_F(timers, tell_when_they_are_set) {
  set(*one_, 5ms);
  set(*one_, 6ms);  // is no timer: an earlier one is set
  set(*one_, 4ms);
  note(1, 9ms);
  EXPECT_EQ(told_, (std::vector{at(5ms), at(4ms), at(9ms)}));
}

}  // namespace
}  // namespace softverbs::engine
