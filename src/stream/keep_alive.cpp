#include "stream/keep_alive.hpp"

#include <utility>

namespace RDMAXX_NAMESPACE::detail {

keep_alive::action keep_alive::next(time_point now, bool under_way) noexcept {
  if (period_.count() == 0) return action::none;
  const auto grace = timeout_ / 8;
  if (std::exchange(heard_, false)) {
    heard_at_ = now;
    unanswered_since_.reset();
    suspected_at_.reset();
  }
  if (!under_way) {
    unanswered_since_.reset();
    suspected_at_.reset();
    if (now - heard_at_ < period_) return wait_until(heard_at_ + period_);
    unanswered_since_ = now;
    wake_at_ = now + (timeout_ - grace);
    return action::ask;
  }
  if (!unanswered_since_) unanswered_since_ = now;
  if (now - *unanswered_since_ < timeout_ - grace)
    return wait_until(*unanswered_since_ + (timeout_ - grace));
  if (!suspected_at_) suspected_at_ = now;
  if (now - *suspected_at_ < grace) return wait_until(*suspected_at_ + grace);
  return action::give_up;
}

}  // namespace RDMAXX_NAMESPACE::detail
