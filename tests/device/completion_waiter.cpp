#include "completion_waiter.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace rdmaxx::device_tests {

namespace {

/// The last few of them, which are those that tell what went wrong.
std::string list_of(std::span<const work_completion> completions) {
  constexpr std::size_t enough = 8;
  if (completions.empty()) return " nothing";
  std::string text;
  if (completions.size() > enough) {
    text = fmt::format(" {}, ending with", completions.size());
    completions = completions.last(enough);
  }
  for (const auto& completion : completions) text += "\n  " + describe(completion);
  return text;
}

}  // namespace

void detail::give_up(const char* what) {
  throw std::runtime_error(fmt::format("waited {} s in vain for {}", patience.count(), what));
}

std::vector<work_completion> wait_for(const completion_queue& cq, std::size_t count) {
  std::vector<work_completion> found;
  std::array<work_completion, 16> room;
  while (found.size() < count) {
    // Without arming: that there is no event may be what the test is about.
    const auto some =
        wait_completions(cq, std::span(room).first(std::min(room.size(), count - found.size())),
                         patience, spin_policy::always);
    if (!some) {
      throw exception(some.error().within(
          fmt::format("waiting for {} completions after:{}", count, list_of(found))));
    }
    found.insert(found.end(), some->begin(), some->end());
  }
  return found;
}

work_completion wait_for_one(const completion_queue& cq) { return wait_for(cq, 1).front(); }

std::vector<work_completion> wait_for_successes(const completion_queue& cq, std::size_t count) {
  auto found = wait_for(cq, count);
  for (const auto& completion : found) {
    if (!completion) throw exception(completion.error());
  }
  return found;
}

work_completion wait_for_success(const completion_queue& cq) {
  return wait_for_successes(cq, 1).front();
}

std::vector<work_completion> completions_in(const completion_queue& cq) {
  std::vector<work_completion> found;
  std::array<work_completion, 16> room;
  for (auto some = cq.poll(room).value(); !some.empty(); some = cq.poll(room).value()) {
    found.insert(found.end(), some.begin(), some.end());
  }
  return found;
}

}  // namespace rdmaxx::device_tests
