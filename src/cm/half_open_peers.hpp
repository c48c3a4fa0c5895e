#pragma once

// half_open_peers: peers whose requests a listener has answered but that are not established yet.
//
// A request is answered as soon as it is seen, and then waits here until the peer is established,
// has failed, or has timed out. There is room for a few; when it is full, further requests stay in
// the listener's channel. One descriptor is readable whenever there is something to do: a request
// and room for it, an event of a peer, or a peer's timeout. `Extra` is what a peer has besides its
// identifier.
//
// Lifetime: destroyed before the listening identifier's channel. Threads: any.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/timerfd.h>

#include <rdmaxx/cm/connection.hpp>
#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>

#include "cm/connection_attempt.hpp"
#include "cm/time_until.hpp"
#include "core/descriptor.hpp"
#include "core/joint_descriptor.hpp"

namespace RDMAXX_NAMESPACE::detail {

template <class Extra>
class half_open_peers {
 public:
  using time_point = library_clock::time_point;

  struct peer {
    Extra extra;                 ///< outlives the identifier
    connection_attempt attempt;  ///< started
  };
  /// An established peer.
  struct arrival {
    cm::connection connection;
    Extra extra;
  };

  /// `requests` is readable when a request is pending; `doing` is what errors say before a peer's
  /// address, such as "accepting".
  [[nodiscard]] static result<std::unique_ptr<half_open_peers>> create(int requests,
                                                                       std::size_t most,
                                                                       std::string_view doing) {
    std::unique_ptr<half_open_peers> made(new half_open_peers(requests, most, doing));
    made->timer_ = descriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!made->timer_) return errno_error("timerfd_create", errno);
    RDMAXX_TRY(made->descriptor_, joint_descriptor::create({requests, made->timer_.get()}));
    return made;
  }
  half_open_peers(const half_open_peers&) = delete;
  half_open_peers& operator=(const half_open_peers&) = delete;

  /// An established peer, or nothing. `next` answers the next pending request and returns it as
  /// result<std::optional<peer>>; it is called while there is room. An error concerns one peer,
  /// unless its category says otherwise.
  template <class Next>
  [[nodiscard]] result<std::optional<arrival>> try_next(Next next) {
    std::optional<peer> gone;  // outlives the lock: destroying an identifier may take long
    const std::lock_guard lock(mutex_);
    for (std::size_t position = 0;;) {
      for (; position < peers_.size(); ++position) {
        auto news = peers_[position].attempt.advance({});
        if (news && !*news) continue;
        auto& one = gone.emplace(taken(position));
        watch();
        if (!news) return told_of(news.error(), one.attempt.id().peer_address());
        return std::optional(arrival{std::move(one.attempt).connected(), std::move(one.extra)});
      }
      if (peers_.size() >= most_) break;
      auto answered = next();
      if (!answered) {
        watch();
        return answered.error();
      }
      auto& one = *answered;
      if (!one) break;
      RDMAXX_TRY(descriptor_->add(one->attempt.fd()));
      peers_.push_back(*std::move(one));  // and handled in the next round
    }
    watch();
    return std::nullopt;
  }

  /// Waits until try_next() may have something to do, or the deadline has passed.
  [[nodiscard]] result<void> wait(time_point deadline) {
    const auto until = [&] {
      const std::lock_guard lock(mutex_);
      return std::min(deadline, earliest_deadline());
    }();
    RDMAXX_TRY(wait_readable_until(fd(), until));
    return {};
  }

  [[nodiscard]] int fd() const noexcept { return descriptor_->fd(); }

  [[nodiscard]] error told_of(const error& failure, const socket_address& address) const {
    return failure.within(std::string(doing_) + " " + describe(address));
  }

 private:
  half_open_peers(int requests, std::size_t most, std::string_view doing)
      : requests_(requests), most_(most), doing_(doing) {}

  [[nodiscard]] peer taken(std::size_t position) {
    const auto found = peers_.begin() + static_cast<std::ptrdiff_t>(position);
    descriptor_->remove(found->attempt.fd());
    auto one = std::move(*found);
    peers_.erase(found);
    return one;
  }

  [[nodiscard]] time_point earliest_deadline() const {
    auto earliest = time_point::max();
    for (const auto& each : peers_) earliest = std::min(earliest, each.attempt.deadline());
    return earliest;
  }

  /// Makes the descriptor readable only for what can be done now.
  void watch() {
    const bool has_room = peers_.size() < most_;
    if (has_room && !requests_are_watched_) {
      requests_are_watched_ = descriptor_->add(requests_).has_value();
    } else if (!has_room && std::exchange(requests_are_watched_, false)) {
      descriptor_->remove(requests_);
    }
    itimerspec when{};  // zero: never
    if (!peers_.empty()) {
      const auto left = std::max(time_until(earliest_deadline()), std::chrono::milliseconds(1));
      when.it_value = {.tv_sec = left.count() / 1000, .tv_nsec = left.count() % 1000 * 1'000'000};
    }
    ::timerfd_settime(timer_.get(), 0, &when, nullptr);
  }

  const int requests_;  ///< the descriptor of the listener's channel
  const std::size_t most_;
  const std::string_view doing_;

  std::mutex mutex_;
  descriptor timer_;
  std::vector<peer> peers_;
  std::unique_ptr<joint_descriptor> descriptor_;  ///< destroyed before those that it watches
  bool requests_are_watched_ = true;
};

}  // namespace RDMAXX_NAMESPACE::detail
