#include <engine/progress_thread.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <base/start_thread.hpp>
#include <engine/endpoint.hpp>
#include <engine/epoll_until.hpp>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softverbs::engine {
namespace {

using namespace std::chrono_literals;

// How often the thread looks while users poll: the longer they have done so, the less.
constexpr clock::duration shortest_standby = 100us;
constexpr clock::duration longest_standby = 800us;
// How long packets are awaited one by one after users have let them wait.
constexpr auto prompt_interval = 50ms;
// After so long without packets the memory that a burst has taken is given back.
constexpr clock::duration time_to_be_idle = 1s;

/// A thread that runs for microseconds at a time asks for the shortest slice, so that it preempts
/// users who spin. Kernels since 6.12 grant it to everybody; older ones ignore it.
void ask_for_short_slices() {
  // As in <linux/sched/types.h>, which cannot be included beside <sched.h>.
  struct {
    std::uint32_t size = 48;
    std::uint32_t policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = ::getpriority(PRIO_PROCESS, 0);
    std::uint32_t priority = 0;
    std::uint64_t runtime_ns = 100'000;
    std::uint64_t deadline_ns = 0;
    std::uint64_t period_ns = 0;
  } wanted;
  static_assert(sizeof wanted == 48);
  ::syscall(SYS_sched_setattr, 0, &wanted, 0);
}

}  // namespace

progress_thread::progress_thread(progress_work& work, int packets)
    : work_(work),
      packets_(packets),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  for (const int fd : {wake_fd_.get(), packets_}) {
    epoll_event interest{.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest);
  }
}

void progress_thread::start() {
  thread_ = softverbs::start_thread("softverbs", [this] { run(); });
}

void progress_thread::stop() {
  stopping_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

void progress_thread::user_sleeps() const {
  if (stands_by()) wake();
}

void progress_thread::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd_.get(), &one, sizeof one);
}

void progress_thread::wake_before(time_point when) const {
  // Announced by the thread before it reads the timers.
  if (sleeps_until_.load() > clock::wall_time(when).time_since_epoch().count()) wake();
}

void progress_thread::set_standby(bool standby) {
  if (standby_.exchange(standby) == standby) return;
  epoll_event interest{.events = standby ? 0U : static_cast<std::uint32_t>(EPOLLIN),
                       .data = {.fd = packets_}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, packets_, &interest);
}

clock::wall::time_point progress_thread::time_to_wake(bool standby, clock::duration look_after) {
  // Announced before the timers are read, so that a timer set meanwhile wakes this thread.
  sleeps_until_ = never.time_since_epoch().count();
  // While the clock is stopped, whoever moves it runs the timers.
  const auto timers =
      clock::is_stopped() ? clock::wall::time_point::max() : clock::wall_time(work_.run_timers());
  if (work_.is_frozen()) return timers;
  const auto soon = std::min(timers, clock::wall::now() + look_after);
  if (standby) return soon;
  switch (work_.prepare_for_sleep()) {
    case packet_receiver::readiness::may_sleep:
      return timers;
    case packet_receiver::readiness::packets_wait:
      return clock::wall::now();
    case packet_receiver::readiness::another_receives:
      break;  // a user does, so the rings cannot be looked at
  }
  return soon;
}

bool progress_thread::sleep_until(clock::wall::time_point until) {
  sleeps_until_ = until.time_since_epoch().count();
  std::array<epoll_event, 2> ready{};
  epoll_until(epoll_.get(), ready, until);
  sleeps_until_ = 0;
  std::uint64_t calls = 0;  // the descriptor does not block
  return ::read(wake_fd_.get(), &calls, sizeof calls) == sizeof calls;
}

void progress_thread::run() {
  ask_for_short_slices();
  std::uint64_t polls_seen = 0;
  auto prompt_until = clock::wall::time_point::min();
  auto look_after = shortest_standby;
  auto idle_at = clock::wall::time_point::max();
  while (!stopping_) {
    // Frozen, it waits for its timers alone: standing by, it does not hear of packets.
    if (work_.is_frozen()) set_standby(true);
    const bool standby = standby_.load(std::memory_order_relaxed);
    auto wake_at = clock::wall::now() + shortest_standby;
    try {
      wake_at = time_to_wake(standby, look_after);
    } catch (const std::exception& problem) {
      work_.packets_are_lost(problem);
    }
    const bool woken = sleep_until(std::min(wake_at, idle_at));
    if (work_.is_frozen()) continue;
    const auto polls = polls_.load(std::memory_order_relaxed);
    const bool users_poll = polls - std::exchange(polls_seen, polls) > 1;
    const auto now = clock::wall::now();
    if (users_poll) idle_at = now + time_to_be_idle;
    // While users poll, they do the work, and this thread must not stand in their way.
    if (standby && users_poll && !woken) {
      look_after = std::min(2 * look_after, longest_standby);
      continue;
    }
    look_after = shortest_standby;
    try {
      const bool found = work_.receive();
      if (standby && found && !users_poll) prompt_until = now + prompt_interval;
      if (found) idle_at = now + time_to_be_idle;
    } catch (const std::exception& problem) {
      work_.packets_are_lost(problem);
    }
    deferred_work::run();
    set_standby(users_poll && !woken && now >= prompt_until);
    if (now >= idle_at) {
      work_.has_become_idle();
      idle_at = clock::wall::time_point::max();
    }
  }
}

}  // namespace softverbs::engine
