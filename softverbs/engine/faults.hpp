// Faults that the device injects into what it sends, for tests of applications and of the device
// itself: SOFTVERBS_FAULTS="loss=0.01,duplicate=0.01,reorder=0.01,corrupt=0.01,seed=7". Rates are
// probabilities for each packet. The same seed gives the same decisions for the same packets in the
// same order.
#pragma once

#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <string_view>

namespace softverbs::engine {

class fault_plan {
 public:
  enum class fate : std::uint8_t { deliver, lose, duplicate, hold_back, corrupt };

  fault_plan() = default;
  /// An unknown word or a rate outside 0 … 1 is reported on standard error and left out.
  explicit fault_plan(const std::string& text);

  [[nodiscard]] bool is_active() const noexcept { return active_; }
  /// For the next packet. Any thread.
  [[nodiscard]] fate next();
  /// A number below `limit`: which bit to flip.
  [[nodiscard]] std::uint32_t pick(std::uint32_t limit);

  /// The process's plan, from the settings.
  [[nodiscard]] static fault_plan& of_process();

 private:
  [[nodiscard]] bool assign(std::string_view name, std::string_view value);
  [[nodiscard]] double* rate_of(std::string_view name);

  bool active_ = false;
  double loss_ = 0;
  double duplicate_ = 0;
  double reorder_ = 0;
  double corrupt_ = 0;
  std::mutex mutex_;
  std::mt19937_64 random_;
};

}  // namespace softverbs::engine
