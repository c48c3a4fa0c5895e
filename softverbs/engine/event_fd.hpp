// The descriptor behind a channel of completions, asynchronous events or connections: a queue of
// events in memory and an eventfd that counts them, so that read(2), poll(2), epoll in both modes
// and a user-set O_NONBLOCK behave as on the kernel's descriptors.
//
// Any thread may call any function. Events are pushed with locks of other objects held, so nothing
// here calls back.
#pragma once

#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include <base/descriptor.hpp>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

namespace softverbs::engine {

template <class Event>
class event_fd {
 public:
  event_fd() : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}

  /// -1 with errno if the process had no descriptor left.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  void push(Event event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    const std::uint64_t one = 1;
    // An edge for each event: users of EPOLLET need it. The counter cannot overflow.
    [[maybe_unused]] const auto written = ::write(fd_.get(), &one, sizeof one);
  }

  /// Waits, unless the user has made the descriptor non-blocking. Nothing with errno EAGAIN, EINTR
  /// …
  [[nodiscard]] std::optional<Event> take() {
    for (;;) {
      std::uint64_t one = 0;
      if (::read(fd_.get(), &one, sizeof one) != sizeof one) return std::nullopt;
      const std::lock_guard lock(mutex_);
      // Empty if the events of a destroyed object were removed after their count was read.
      if (events_.empty()) continue;
      Event event = std::move(events_.front());
      events_.pop_front();
      return event;
    }
  }

  /// Forgets the events that `matches` accepts, which nobody has taken, and counts them.
  template <class Matches>
  [[nodiscard]] unsigned remove_if(Matches matches) {
    const std::lock_guard lock(mutex_);
    const auto removed = static_cast<unsigned>(std::erase_if(events_, matches));
    for (unsigned i = 0; i < removed; ++i) {
      std::uint64_t one = 0;
      iovec into{.iov_base = &one, .iov_len = sizeof one};
      // Never waits, whatever the user's flags are; a taker that was faster finds the queue empty.
      [[maybe_unused]] const auto got = ::preadv2(fd_.get(), &into, 1, -1, RWF_NOWAIT);
    }
    return removed;
  }

 private:
  std::deque<Event> events_;  // before the descriptor: making it may find no memory
  std::mutex mutex_;
  descriptor fd_;
};

}  // namespace softverbs::engine
