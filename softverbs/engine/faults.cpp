#include <engine/faults.hpp>

#include <charconv>
#include <string_view>

#include <base/log.hpp>
#include <base/settings.hpp>

namespace softverbs::engine {

fault_plan::fault_plan(const std::string& text) {
  std::uint64_t seed = 1;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const auto word = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const auto equals = word.find('=');
    const auto name = word.substr(0, equals);
    const auto value =
        equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
    const auto* const end = value.data() + value.size();
    if (name == "seed") {
      if (std::from_chars(value.data(), end, seed).ptr == end && !value.empty()) continue;
    } else {
      double* rate = name == "loss"        ? &loss_
                     : name == "duplicate" ? &duplicate_
                     : name == "reorder"   ? &reorder_
                     : name == "corrupt"   ? &corrupt_
                                           : nullptr;
      double wanted = -1;
      if (rate != nullptr && std::from_chars(value.data(), end, wanted).ptr == end && wanted >= 0 &&
          wanted <= 1) {
        *rate = wanted;
        active_ = active_ || wanted > 0;
        continue;
      }
    }
    log(log_level::error,
        "SOFTVERBS_FAULTS: \"{}\" is not understood; write loss=0.01, duplicate=, reorder=, "
        "corrupt= (rates from 0 to 1) or seed=7",
        word);
  }
  random_.seed(seed);
}

fault_plan::fate fault_plan::next() {
  const std::lock_guard lock(mutex_);
  double lot = std::uniform_real_distribution<double>(0, 1)(random_);
  if ((lot -= loss_) < 0) return fate::lose;
  if ((lot -= duplicate_) < 0) return fate::duplicate;
  if ((lot -= reorder_) < 0) return fate::hold_back;
  if ((lot -= corrupt_) < 0) return fate::corrupt;
  return fate::deliver;
}

std::uint32_t fault_plan::pick(std::uint32_t limit) {
  const std::lock_guard lock(mutex_);
  return std::uniform_int_distribution<std::uint32_t>(0, limit - 1)(random_);
}

fault_plan& fault_plan::of_process() {
  static auto* const plan = new fault_plan(settings::get().faults);  // outlives every thread
  return *plan;
}

}  // namespace softverbs::engine
