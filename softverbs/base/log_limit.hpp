// Which occurrences of an event are worth a line in the log: the first, and then one in each
// interval, with the number of all that there have been. An event that happens a million times a
// second would otherwise bury everything else, and slow its program down to the speed of a
// terminal.
//
// Not synchronised: whoever has it guards it. The time is the caller's, so that tests can move it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace softverbs {

template <class Clock>
class log_limit {
 public:
  static constexpr std::chrono::seconds interval{1};

  /// The number of occurrences so far, this one among them, if they are to be told now.
  [[nodiscard]] std::optional<std::uint64_t> occurred(typename Clock::time_point now) noexcept {
    ++count_;
    if (told_ != 0 && now - last_told_ < interval) return std::nullopt;
    last_told_ = now;
    told_ = count_;
    return count_;
  }

  /// When it has ended: the number of all occurrences, unless the last line has told it.
  [[nodiscard]] std::optional<std::uint64_t> ended() noexcept {
    if (told_ == count_) return std::nullopt;
    told_ = count_;
    return count_;
  }

 private:
  std::uint64_t count_ = 0;
  std::uint64_t told_ = 0;
  typename Clock::time_point last_told_{};
};

}  // namespace softverbs
