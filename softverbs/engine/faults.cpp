#include <engine/faults.hpp>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <system_error>

#include <base/log.hpp>
#include <base/settings.hpp>

namespace softverbs::engine {
namespace {

/// The whole text as a number, or nothing.
template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto* const end = std::to_address(text.end());
  const auto parsed = std::from_chars(std::to_address(text.begin()), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

double* fault_plan::rate_of(std::string_view name) {
  if (name == "loss") return &loss_;
  if (name == "duplicate") return &duplicate_;
  if (name == "reorder") return &reorder_;
  if (name == "corrupt") return &corrupt_;
  return nullptr;
}

bool fault_plan::assign(std::string_view name, std::string_view value) {
  if (name == "seed") {
    const auto seed = parse<std::uint64_t>(value);
    if (seed) random_.seed(*seed);
    return seed.has_value();
  }
  auto* const rate = rate_of(name);
  const auto wanted = parse<double>(value);
  if (rate == nullptr || !wanted || *wanted < 0 || *wanted > 1) return false;
  *rate = *wanted;
  active_ = active_ || *wanted > 0;
  return true;
}

fault_plan::fault_plan(const std::string& text) : random_(1) {
  for (std::string_view rest = text; !rest.empty();) {
    const auto word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    const auto equals = std::min(word.find('='), word.size());
    const auto value = word.substr(std::min(equals + 1, word.size()));
    if (assign(word.substr(0, equals), value)) continue;
    log(log_level::error,
        "SOFTVERBS_FAULTS: \"{}\" is not understood; write loss=0.01, duplicate=, reorder=, "
        "corrupt= (rates from 0 to 1) or seed=7",
        word);
  }
}

fault_plan::fate fault_plan::next() {
  const std::lock_guard lock(mutex_);
  const double lot = std::uniform_real_distribution<double>(0, 1)(random_);
  double limit = loss_;
  if (lot < limit) return fate::lose;
  limit += duplicate_;
  if (lot < limit) return fate::duplicate;
  limit += reorder_;
  if (lot < limit) return fate::hold_back;
  limit += corrupt_;
  return lot < limit ? fate::corrupt : fate::deliver;
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
