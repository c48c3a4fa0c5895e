// stream_waiter on fake devices: which thread leads, which follow, and which are woken.

#include "stream/stream_waiter.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/core/clock.hpp>

#include "unit/stream/fake_stream_device.hpp"

namespace rdmaxx {

namespace {

using namespace std::chrono_literals;
using namespace stream_protocol;
using detail::interest;
using detail::stream_driver;
using detail::stream_waiter;
using detail::wait_group;

constexpr receive_window window{.buffers = 8, .buffer_bytes = 64};
constexpr agreement terms{.own = window, .peer = window};

/// Streams that share queues: a thread that polls makes all of them progress.
struct sharing_group final : wait_group {
  void tell_others() override {
    for (auto* const each : members) each->take_news();
  }
  std::vector<stream_waiter*> members;
};

struct waiting_stream {
  explicit waiting_stream(wait_group& group)
      : driver(device, device.make_engine(), {.keep_alive = 1h, .keep_alive_timeout = 1h}),
        waiter(driver, group, 0us) {}

  /// With the group's lock.
  void arrive(std::string_view text) {
    device.arrive({.sequence = sequence++, .granted = window.credits()},
                  std::as_bytes(std::span(text)));
  }
  [[nodiscard]] bool can_read() const { return driver.engine().receiving().can_read(); }
  bool wait(library_clock::time_point deadline = library_clock::time_point::max()) {
    auto held = waiter.acquire();
    return waiter.wait(held, deadline, [this] { return can_read(); }, interest::arrivals);
  }

  rdmaxx_test::fake_stream_device device{terms, 4};
  stream_driver driver;
  stream_waiter waiter;
  std::uint32_t sequence = 0;
};

/// Checks with the lock until it is true; false if that takes too long.
template <class Condition>
bool comes_true(wait_group& group, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  do {
    if (const std::lock_guard lock(group.mutex); condition()) return true;
    std::this_thread::sleep_for(1ms);
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

template <class Stream>
std::future<bool> waiting(Stream& stream) {
  return std::async(std::launch::async, [&stream] { return stream.wait(); });
}

class stream_waiter_test : public testing::Test {
 protected:
  sharing_group group;
  waiting_stream one{group};
  waiting_stream other{group};
};

TEST_F(stream_waiter_test, what_is_there_already_is_not_waited_for) {
  one.arrive("x");
  EXPECT_TRUE(one.wait());
  EXPECT_EQ(one.device.arms[1], 0);
  EXPECT_FALSE(group.has_leader);
}

TEST_F(stream_waiter_test, a_deadline_ends_a_wait_and_one_that_has_passed_does_not_begin_it) {
  const auto deadline = library_clock::now() + 20ms;
  EXPECT_FALSE(one.wait(deadline));
  EXPECT_GE(library_clock::now(), deadline);
  EXPECT_FALSE(group.has_leader);
  const auto arms = one.device.arms[1];
  EXPECT_FALSE(one.wait(deadline));
  EXPECT_EQ(one.device.arms[1], arms);
  one.arrive("x");
  EXPECT_TRUE(one.wait(deadline)) << "what has come is seen";
}

TEST_F(stream_waiter_test, an_arrival_wakes_the_leader_from_its_sleep) {
  auto waits = waiting(one);
  ASSERT_TRUE(comes_true(group, [this] { return one.device.is_armed[1]; }));
  {
    const std::lock_guard lock(group.mutex);
    EXPECT_TRUE(group.has_leader);
    one.arrive("x");
  }
  EXPECT_TRUE(waits.get());
  EXPECT_FALSE(group.has_leader);
}

TEST_F(stream_waiter_test, a_leader_that_has_what_it_waited_for_hands_over) {
  auto leader = waiting(one);
  ASSERT_TRUE(comes_true(group, [this] { return group.has_leader; }));
  auto follower = waiting(other);
  ASSERT_TRUE(comes_true(group, [this] { return group.followers.size() == 1; }));
  {
    const std::lock_guard lock(group.mutex);
    one.arrive("x");
  }
  EXPECT_TRUE(leader.get());
  ASSERT_TRUE(comes_true(group, [this] { return group.has_leader && group.followers.empty(); }));
  ASSERT_TRUE(comes_true(group, [this] { return other.device.is_armed[1]; }));
  {
    const std::lock_guard lock(group.mutex);
    other.arrive("y");
  }
  EXPECT_TRUE(follower.get());
  EXPECT_FALSE(group.has_leader);
}

TEST_F(stream_waiter_test, a_leader_wakes_a_follower_for_what_it_has_found) {
  group.members = {&one.waiter, &other.waiter};
  auto leader = waiting(one);
  ASSERT_TRUE(comes_true(group, [this] { return group.has_leader; }));
  auto follower = waiting(other);
  ASSERT_TRUE(comes_true(group, [this] { return group.followers.size() == 1; }));
  {
    const std::lock_guard lock(group.mutex);  // nobody is told by that
    other.arrive("y");
    one.device.wake();
  }
  EXPECT_TRUE(follower.get());
  ASSERT_TRUE(comes_true(group, [this] { return group.has_leader && group.followers.empty(); }));
  {
    const std::lock_guard lock(group.mutex);
    EXPECT_FALSE(one.can_read());
    one.arrive("x");
    one.device.wake();
  }
  EXPECT_TRUE(leader.get());
}

TEST_F(stream_waiter_test, all_threads_that_wait_for_one_stream_are_woken) {
  auto first = waiting(one);
  auto second = waiting(one);
  auto third = waiting(one);
  ASSERT_TRUE(
      comes_true(group, [this] { return group.followers.size() == 2 && one.device.is_armed[1]; }));
  {
    const std::lock_guard lock(group.mutex);
    one.arrive("x");
  }
  EXPECT_TRUE(first.get() && second.get() && third.get());
  EXPECT_TRUE(group.followers.empty());
}

}  // namespace

}  // namespace rdmaxx
