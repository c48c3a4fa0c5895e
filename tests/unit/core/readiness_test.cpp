#include <rdmaxx/core/readiness.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <latch>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace rdmaxx;
using namespace std::chrono_literals;

namespace {

using clock = std::chrono::steady_clock;

error late(std::chrono::milliseconds waited) {
  return timed_out_error("counting", waited, "the counter");
}

/// A descriptor that becomes readable when raise() is called, once for each call.
class event_counter {
 public:
  event_counter() : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC)) {}
  event_counter(const event_counter&) = delete;
  event_counter& operator=(const event_counter&) = delete;
  ~event_counter() { ::close(fd_); }

  [[nodiscard]] int fd() const { return fd_; }
  void raise(std::uint64_t times = 1) const { ASSERT_EQ(::write(fd_, &times, sizeof times), 8); }
  /// As the library's event sources do: an event, nothing, or an error.
  [[nodiscard]] result<std::optional<int>> try_get() const {
    std::uint64_t value = 0;
    if (::read(fd_, &value, sizeof value) == 8) return std::optional(1);
    if (errno == EAGAIN) return std::optional<int>();
    return errno_error("read", errno);
  }
  [[nodiscard]] result<int> wait(std::optional<std::chrono::milliseconds> timeout) const {
    return wait_for_event(fd_, timeout, [this] { return try_get(); }, late);
  }

 private:
  int fd_;
};

std::atomic<int> signals_handled = 0;

/// Lets SIGUSR1 interrupt system calls while it exists.
class interrupting_signal {
 public:
  interrupting_signal() {
    struct sigaction action{};
    action.sa_handler = [](int) { ++signals_handled; };
    ::sigaction(SIGUSR1, &action, &before_);
    signals_handled = 0;
  }
  interrupting_signal(const interrupting_signal&) = delete;
  interrupting_signal& operator=(const interrupting_signal&) = delete;
  ~interrupting_signal() { ::sigaction(SIGUSR1, &before_, nullptr); }

  /// To be called on a thread before it is interrupted for the first time. ThreadSanitizer makes
  /// its record of a thread's signals at the thread's first blocking call, and loses a signal that
  /// arrives while it does.
  static void prepare_thread(int fd) { ASSERT_FALSE(wait_readable(fd, 0ms).value()); }

  /// Returns when the thread has run the handler.
  static void interrupt(pthread_t thread) {
    const int before = signals_handled;
    ::pthread_kill(thread, SIGUSR1);
    while (signals_handled == before) std::this_thread::yield();
  }

 private:
  struct sigaction before_{};
};

}  // namespace

TEST(wait_readable, is_true_at_once_when_something_is_there) {
  const event_counter events;
  events.raise();

  EXPECT_TRUE(wait_readable(events.fd(), 0ms).value());
  EXPECT_TRUE(wait_readable(events.fd(), forever).value());
}

TEST(wait_readable, is_false_after_the_timeout) {
  const event_counter events;
  const auto start = clock::now();

  EXPECT_FALSE(wait_readable(events.fd(), 20ms).value());

  EXPECT_GE(clock::now() - start, 20ms);
}

TEST(wait_readable_until, waits_until_the_deadline_or_without_limit) {
  const event_counter events;
  const auto deadline = clock::now() + 20ms;

  EXPECT_FALSE(wait_readable_until(events.fd(), deadline).value());

  EXPECT_GE(clock::now(), deadline);
  const std::jthread later([&] { events.raise(); });
  EXPECT_TRUE(wait_readable_until(events.fd(), library_clock::time_point::max()).value());
}

TEST(wait_readable, an_expired_timeout_only_checks) {
  const event_counter events;

  EXPECT_FALSE(wait_readable(events.fd(), 0ms).value());
  EXPECT_FALSE(wait_readable(events.fd(), -5ms).value());
  EXPECT_FALSE(wait_readable(events.fd(), std::chrono::milliseconds::min()).value());
}

TEST(wait_readable, the_longest_times_do_not_overflow_into_the_past) {
  for (const auto timeout :
       {std::chrono::milliseconds::max(), std::chrono::milliseconds::max() - 1ms,
        std::chrono::milliseconds(std::numeric_limits<std::int64_t>::max() / 1'000'000),
        std::chrono::milliseconds(std::int64_t{1} << 40)}) {
    const event_counter events;
    const std::jthread later([&] { events.raise(); });

    EXPECT_TRUE(wait_readable(events.fd(), timeout).value()) << timeout.count();
  }
}

TEST(wait_readable, the_other_end_of_a_pipe_going_away_is_readable) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ::close(ends[1]);

  EXPECT_TRUE(wait_readable(ends[0], forever).value());

  ::close(ends[0]);
}

TEST(wait_readable, a_descriptor_that_is_not_open_is_an_error) {
  int closed = -1;
  {
    const event_counter events;
    closed = events.fd();
  }
  EXPECT_EQ(wait_readable(closed, forever).error(), std::errc::bad_file_descriptor);
  EXPECT_EQ(wait_readable(-1, forever).error(), std::errc::bad_file_descriptor)
      << "poll(2) ignores negative descriptors and would wait forever";
}

TEST(wait_readable, signals_do_not_end_the_wait) {
  const interrupting_signal signal;
  const event_counter events;
  std::optional<bool> readable;
  {
    std::latch ready(1);
    std::jthread waiter([&] {
      interrupting_signal::prepare_thread(events.fd());
      ready.count_down();
      readable = wait_readable(events.fd(), forever).value();
    });
    ready.wait();
    for (int i = 0; i < 20; ++i) interrupting_signal::interrupt(waiter.native_handle());
    events.raise();
  }
  EXPECT_EQ(readable, true);
}

TEST(wait_readable, signals_do_not_shorten_or_prolong_a_timed_wait) {
  const interrupting_signal signal;
  const event_counter events;
  std::optional<bool> readable;
  std::atomic<bool> done = false;
  const auto start = clock::now();
  {
    std::latch ready(1);
    std::jthread waiter([&] {
      interrupting_signal::prepare_thread(events.fd());
      ready.count_down();
      readable = wait_readable(events.fd(), 50ms).value();
      done = true;
      // Stays until the signals have stopped, so that each has a thread to go to.
      static_cast<void>(wait_readable(events.fd(), forever));
    });
    ready.wait();
    while (!done) interrupting_signal::interrupt(waiter.native_handle());
    events.raise();
  }
  EXPECT_EQ(readable, false);
  EXPECT_GE(clock::now() - start, 50ms);
}

TEST(wait_for_event, gives_an_event_that_is_there_without_waiting) {
  const event_counter events;
  events.raise();

  EXPECT_EQ(events.wait(0ms).value(), 1);
  EXPECT_EQ(events.wait(0ms).error(), std::errc::timed_out);
}

TEST(wait_for_event, fails_with_timed_out_when_nothing_came_in_time) {
  const event_counter events;
  const auto start = clock::now();

  const auto outcome = events.wait(20ms);

  EXPECT_EQ(outcome.error(), std::errc::timed_out);
  EXPECT_EQ(outcome.error().problem(), "timed out after 20 ms waiting for the counter");

  EXPECT_GE(clock::now() - start, 20ms);
}

TEST(wait_for_event, the_longest_time_does_not_overflow_into_the_past) {
  const event_counter events;
  const std::jthread later([&] { events.raise(); });

  EXPECT_EQ(events.wait(std::chrono::milliseconds::max()).value(), 1);
}

TEST(wait_for_event, hands_on_the_error_of_the_source) {
  const event_counter events;
  const auto broken = [] { return result<std::optional<int>>(errno_error("source", EIO)); };

  EXPECT_EQ(wait_for_event(events.fd(), forever, broken, late).error().operation(), "source");
}

TEST(wait_for_event, each_event_goes_to_one_of_several_waiting_threads) {
  const event_counter events;
  std::vector<int> taken(4, 0);
  {
    std::vector<std::jthread> threads;
    for (auto& count : taken) {
      threads.emplace_back([&events, &count] {
        for (int i = 0; i < 25; ++i) count += events.wait(forever).value();
      });
    }
    for (int i = 0; i < 100; ++i) events.raise();
  }
  EXPECT_EQ(taken, std::vector<int>(4, 25));
  EXPECT_EQ(events.wait(0ms).error(), std::errc::timed_out);
}

TEST(set_nonblocking, makes_reads_return_and_keeps_other_flags) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::fcntl(ends[0], F_SETFL, O_APPEND), 0);
  const int before = ::fcntl(ends[0], F_GETFL);

  ASSERT_TRUE(set_nonblocking(ends[0]));

  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(::fcntl(ends[0], F_GETFL), before | O_NONBLOCK);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(set_nonblocking, a_closed_descriptor_is_an_error) {
  EXPECT_EQ(set_nonblocking(-1).error(), std::errc::bad_file_descriptor);
}
