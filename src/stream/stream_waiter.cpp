#include "stream/stream_waiter.hpp"

#include <array>

#include <poll.h>

namespace RDMAXX_NAMESPACE::detail {

/// One more who waits for the leader, as long as it lives.
class stream_waiter::following {
 public:
  explicit following(stream_waiter& of) : of_(of) { ++of_.followers_; }
  following(const following&) = delete;
  following& operator=(const following&) = delete;
  ~following() { --of_.followers_; }

 private:
  stream_waiter& of_;
};

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
  // Whoever got nothing at first and then something does not need the descriptor any more.
  if (driver_.activity() != published_ || descriptor_ != nullptr) publish();
}

void stream_waiter::progress() {
  driver_.progress();
  publish_activity();
}

void stream_waiter::follow(lock& held, time_point deadline, interest what) {
  const following one_more(*this);
  if (what == interest::anything && driver_.arm_sends()) {  // a leader who reads may sleep without
    driver_.progress();
    publish();
    return;
  }
  if (deadline == time_point::max()) {
    changed_.wait(held);
  } else {
    changed_.wait_for(held, std::chrono::milliseconds(library_clock::milliseconds_until(deadline)));
  }
}

void stream_waiter::sleep(lock& held, time_point deadline) {
  const bool was_down = driver_.is_down();
  driver_.tend(library_clock::now());
  if (driver_.is_down() != was_down) return;
  const auto until = std::min(deadline, driver_.next_deadline());
  const auto [completions, connection] = driver_.descriptors();
  std::array<pollfd, 2> watched{pollfd{.fd = completions, .events = POLLIN, .revents = 0},
                                pollfd{.fd = connection, .events = POLLIN, .revents = 0}};
  held.unlock();
  // An error is a signal: whoever waits looks again.
  ::poll(watched.data(), watched.size(), library_clock::milliseconds_until(until));
  held.lock();
  if (watched[0].revents != 0) driver_.take_completion_events();
  if (watched[1].revents != 0) driver_.take_connection_events();
}

result<int> stream_waiter::fd() {
  if (descriptor_ == nullptr) {
    const auto [completions, connection] = driver_.descriptors();
    RDMAXX_TRY(descriptor_, joint_descriptor::create({completions, connection}));
    driver_.arm(interest::anything);
    publish();
  }
  return descriptor_->fd();
}

}  // namespace RDMAXX_NAMESPACE::detail
