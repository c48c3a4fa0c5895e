#include <cm/retransmission.hpp>

#include <algorithm>
#include <chrono>

namespace softverbs::cm {

using engine::time_point;

void retransmission::start(const wire::cm_message& message, time_point now) {
  message_ = message;
  repetitions_left_ = most_repetitions;
  interval_ = first_interval;
  deliveries_left_ = most_deliveries;
  undelivered_ = false;
  first_sending_ = true;
  due_ = now + interval_;
}

void retransmission::stop() {
  message_.reset();
  due_ = engine::never;
}

std::optional<wire::cm_message> retransmission::on_timer(time_point now) {
  if (!message_ || now < due_) return std::nullopt;
  first_sending_ = false;
  if (undelivered_) {
    undelivered_ = false;
    interval_ = first_interval;
  } else {
    deliveries_left_ = 0;
    if (repetitions_left_ == 0) {
      stop();
      return std::nullopt;
    }
    --repetitions_left_;
    interval_ = std::min(2 * interval_, longest_interval);
  }
  due_ = now + interval_;
  return message_;
}

bool retransmission::on_undelivered(time_point now) {
  if (!message_) return false;
  if (deliveries_left_ == 0) return true;
  if (--deliveries_left_ == 0) return false;
  undelivered_ = true;
  due_ = now + between_deliveries;
  return true;
}

void retransmission::postpone(time_point now, unsigned service_timeout) {
  if (message_)
    due_ = now + std::chrono::nanoseconds(std::int64_t{4096} << (service_timeout & 0x1fU));
}

}  // namespace softverbs::cm
