#include "cm/name_lookup.hpp"

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/fork.hpp>
#include <rdmaxx/core/readiness.hpp>

#include "core/start_thread.hpp"

namespace RDMAXX_NAMESPACE::detail {

namespace {

/// The number of lookups in the lower half, the fork generation in the upper one: the threads of a
/// parent do not count in its child.
std::atomic<std::uint64_t> under_way{0};

std::uint64_t of_this_process(std::uint64_t now) noexcept {
  const auto generation = std::uint64_t{fork_generation()} << 32;
  return (now & ~std::uint64_t{0xffffffff}) == generation ? now : generation;
}

bool has_entered() noexcept {
  auto now = under_way.load();
  for (;;) {
    const auto mine = of_this_process(now);
    if ((mine & 0xffffffff) >= name_lookup::most) return false;
    if (under_way.compare_exchange_weak(now, mine + 1)) return true;
  }
}

void leave() noexcept { under_way.fetch_sub(1); }

/// Shared by the caller and the thread; the last one destroys it.
struct question {
  std::function<name_lookup::answer()> ask;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<name_lookup::answer> told;

  void answer() {
    auto found = [this]() -> name_lookup::answer {
      try {
        return ask();
      } catch (const std::exception&) {
        return errno_error("getaddrinfo", ENOMEM);
      }
    }();
    // Before the answer is published, so that the caller finds the place free.
    leave();
    {
      const std::lock_guard lock(mutex);
      told = std::move(found);
    }
    changed.notify_one();
  }

  /// The answer, if it arrives in time.
  std::optional<name_lookup::answer> wait(library_clock::time_point deadline) {
    std::unique_lock lock(mutex);
    while (!told) {
      const auto left = library_clock::milliseconds_until(deadline);
      if (left == 0) return std::nullopt;
      changed.wait_for(lock, std::chrono::milliseconds(left));
    }
    return std::move(told);
  }
};

}  // namespace

std::size_t name_lookup::count() noexcept { return of_this_process(under_way) & 0xffffffff; }

name_lookup::answer name_lookup::until(const std::string& name, std::chrono::milliseconds timeout,
                                       std::function<answer()> ask) {
  const auto call = fmt::format("looking up {}", name);
  const auto deadline = deadline_after(timeout);
  if (!has_entered()) {
    return errno_error(call, EAGAIN, fmt::format("{} names are already being looked up", most),
                       "the resolver of this host does not answer: see /etc/resolv.conf");
  }
  std::thread asking;
  std::shared_ptr<question> one;
  try {
    one = std::make_shared<question>();
    one->ask = std::move(ask);
    asking = start_thread("rdmaxx-names", [one] { one->answer(); });
  } catch (const std::exception&) {
    leave();
    return errno_error(call, EAGAIN, "no thread can be started for it");
  }
  if (auto told = one->wait(deadline)) {
    asking.join();
    return std::move(*told);
  }
  asking.detach();
  return timed_out_error(call, timeout, "the resolver",
                         "the resolver of this host does not answer: see /etc/resolv.conf");
}

}  // namespace RDMAXX_NAMESPACE::detail
