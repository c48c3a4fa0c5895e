#include "stream/stream_waiter.hpp"

#include <algorithm>
#include <array>

#include <poll.h>

namespace RDMAXX_NAMESPACE::detail {

/// Registers a thread that waits for the leader while this object exists.
class stream_waiter::following {
 public:
  explicit following(stream_waiter& of) : of_(of) {
    of_.group_.followers.push_back(&of_);
    ++of_.followers_;
  }
  following(const following&) = delete;
  following& operator=(const following&) = delete;
  ~following() {
    auto& all = of_.group_.followers;
    all.erase(std::ranges::find(all, &of_));
    --of_.followers_;
  }

 private:
  stream_waiter& of_;
};

void wait_group::hand_over() {
  if (!has_leader && !followers.empty()) followers.front()->changed_.notify_one();
}

stream_waiter::~stream_waiter() {
  if (descriptor_ == nullptr) return;
  const std::lock_guard lock(group_.mutex);
  --group_.watched_descriptors;
}

void stream_waiter::publish() {
  published_ = driver_.activity();
  if (followers_ > 0) changed_.notify_all();
  if (descriptor_ != nullptr) {
    const auto& engine = driver_.engine();
    descriptor_->set_readable((reader_tries_again_ && engine.receiving().can_read()) ||
                              (writer_tries_again_ && engine.sending().can_write()));
  }
}

void stream_waiter::publish_activity() {
  // A caller that got something after getting nothing no longer needs the descriptor.
  if (driver_.activity() != published_ || descriptor_ != nullptr) publish();
}

void stream_waiter::progress() {
  driver_.progress();
  publish_activity();
}

void stream_waiter::take_news() {
  driver_.take_connection_events();
  progress();
}

void stream_waiter::progress_all() {
  progress();
  group_.tell_others();
}

void stream_waiter::follow(held_lock& held, time_point deadline, interest what) {
  const following one_more(*this);
  if (what == interest::anything &&
      driver_.arm_sends()) {  // a leader that reads may sleep without it
    driver_.progress();
    publish();
    group_.tell_others();
    return;
  }
  if (driver_.engine().sending().waits_for_pool()) group_.wants_send_buffers = true;
  const auto until = std::min(deadline, driver_.next_deadline());
  if (until == time_point::max()) {
    changed_.wait(held);
  } else {
    changed_.wait_for(held, std::chrono::milliseconds(library_clock::milliseconds_until(until)));
  }
  driver_.tend(library_clock::now());  // the leader may belong to another stream
}

void stream_waiter::sleep(held_lock& held, time_point deadline) {
  const bool was_down = driver_.is_down();
  driver_.tend(library_clock::now());
  if (driver_.is_down() != was_down) return;
  const auto until = std::min(deadline, driver_.next_deadline());
  const auto [completions, connection] = driver_.descriptors();
  std::array<pollfd, 2> watched{pollfd{.fd = completions, .events = POLLIN, .revents = 0},
                                pollfd{.fd = connection, .events = POLLIN, .revents = 0}};
  held.unlock();
  // An error here means a signal: waiting threads check again.
  ::poll(watched.data(), watched.size(), library_clock::milliseconds_until(until));
  held.lock();
  if (watched[0].revents != 0) driver_.take_completion_events();
  if (watched[1].revents != 0) driver_.take_connection_events();
}

result<int> stream_waiter::fd() {
  if (descriptor_ == nullptr) {
    const auto [completions, connection] = driver_.descriptors();
    RDMAXX_TRY(descriptor_, joint_descriptor::create({completions, connection}));
    ++group_.watched_descriptors;
    driver_.arm(interest::anything);
    publish();
  }
  return descriptor_->fd();
}

}  // namespace RDMAXX_NAMESPACE::detail
