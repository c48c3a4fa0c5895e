#include "stream/reception.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <rdmaxx/core/readiness.hpp>

#include "cm/accept_failure.hpp"
#include "cm/time_until.hpp"
#include "stream/own_greeting.hpp"

namespace RDMAXX_NAMESPACE::detail {

using stream_protocol::greeting;

namespace {

error told_of(const error& failure, const socket_address& peer) {
  return failure.within(fmt::format("accepting a stream of {}", describe(peer)));
}

}  // namespace

result<std::unique_ptr<reception>> reception::create(cm::listener waiting,
                                                     const stream_options& options,
                                                     std::size_t most_half_open) {
  std::unique_ptr<reception> made(new reception(std::move(waiting), options, most_half_open));
  made->timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (made->timer_ < 0) return errno_error("timerfd_create", errno);
  RDMAXX_TRY(made->descriptor_, joint_descriptor::create({made->waiting_.fd(), made->timer_}));
  return made;
}

reception::reception(cm::listener waiting, const stream_options& options,
                     std::size_t most_half_open)
    : waiting_(std::move(waiting)), options_(options), most_half_open_(most_half_open) {}

reception::~reception() {
  descriptor_.reset();
  if (timer_ >= 0) ::close(timer_);
}

result<reception::half_open> reception::received(cm::connection_request request) const {
  const auto own = own_greeting(options_);
  const auto terms = [&]() -> result<stream_protocol::agreement> {
    RDMAXX_TRY(const auto theirs, greeting::from_bytes(request.peer_data()));
    return negotiate(own, theirs);
  }();
  if (!terms) {
    (void)std::move(request).reject(own.to_bytes());
    return terms.error();
  }
  auto resources = stream_resources::for_id(request.id(), options_);
  if (!resources) return accept_failure(resources.error(), request.id());
  const auto answered = answer(own, *terms).to_bytes();
  if (const auto accepted = request.id().accept({.private_data = answered}); !accepted)
    return accept_failure(accepted.error(), request.id());
  return half_open{.id = std::move(request).release(),
                   .resources = *std::move(resources),
                   .terms = *terms,
                   .deadline = deadline_after(options_.connect_timeout)};
}

result<std::optional<cm_event>> reception::news_of(const half_open& peer) {
  for (;;) {
    RDMAXX_TRY(auto event, peer.id.channel().try_get_event());
    if (!event) break;
    if (!event->concerns(peer.id)) continue;
    if (const auto outcome = event->outcome(); !outcome) return peers_failure(outcome.error());
    if (event->type() == cm_event_type::established) return event;
    if (event->type() == cm_event_type::disconnected)
      return errno_error("waiting for the peer to come up", ECONNRESET, "the peer has given up");
    if (event->type() == cm_event_type::device_removal)
      return errno_error("waiting for the peer to come up", ENODEV);
  }
  if (library_clock::now() < peer.deadline) return std::nullopt;
  return peers_failure(errno_error("waiting for the peer to come up", ETIMEDOUT));
}

reception::half_open reception::taken(std::vector<half_open>::iterator peer) {
  descriptor_->remove(peer->id.channel().fd());
  auto one = std::move(*peer);
  peers_.erase(peer);
  return one;
}

reception::time_point reception::earliest_deadline() const {
  if (peers_.empty()) return time_point::max();
  return std::ranges::min_element(peers_, {}, &half_open::deadline)->deadline;
}

/// So that the descriptor tells of what can be done, and of nothing else.
void reception::watch() {
  const bool has_room = peers_.size() < most_half_open_;
  if (has_room && !requests_are_watched_) {
    requests_are_watched_ = descriptor_->add(waiting_.fd()).has_value();
  } else if (!has_room && std::exchange(requests_are_watched_, false)) {
    descriptor_->remove(waiting_.fd());
  }
  itimerspec when{};  // zero: never
  if (!peers_.empty()) {
    const auto left = std::max(time_until(earliest_deadline()), std::chrono::milliseconds(1));
    when.it_value = {.tv_sec = left.count() / 1000, .tv_nsec = left.count() % 1000 * 1'000'000};
  }
  ::timerfd_settime(timer_, 0, &when, nullptr);
}

result<std::shared_ptr<stream_connection>> reception::try_next() {
  std::optional<half_open> gone;  // outlives the lock: the end of an identifier may take long
  const std::lock_guard lock(mutex_);
  for (std::size_t next = 0;;) {
    for (; next < peers_.size(); ++next) {
      const auto peer = peers_.begin() + static_cast<std::ptrdiff_t>(next);
      const auto news = news_of(*peer);
      if (!news) {
        const auto& one = gone.emplace(taken(peer));
        watch();
        return told_of(news.error(), one.id.peer_address());
      }
      const auto& established = *news;
      if (!established) continue;
      auto& one = gone.emplace(taken(peer));
      watch();
      return stream_connection::create(cm::connection(std::move(one.id), *established),
                                       std::move(one.resources), one.terms, options_);
    }
    if (peers_.size() >= most_half_open_) break;
    RDMAXX_TRY(auto request, waiting_.try_get_request());
    if (!request) break;
    const auto address = request->peer_address();
    auto peer = received(*std::move(request));
    if (!peer) return told_of(peer.error(), address);
    RDMAXX_TRY(descriptor_->add(peer->id.channel().fd()));
    peers_.push_back(*std::move(peer));  // and looked at, with the next round
  }
  watch();
  return nullptr;
}

result<void> reception::wait(time_point deadline) {
  const auto until = [&] {
    const std::lock_guard lock(mutex_);
    return std::min(deadline, earliest_deadline());
  }();
  if (until == time_point::max()) {
    RDMAXX_TRY(wait_readable(fd(), forever));
  } else {
    RDMAXX_TRY(wait_readable(fd(), time_until(until)));
  }
  return {};
}

}  // namespace RDMAXX_NAMESPACE::detail
