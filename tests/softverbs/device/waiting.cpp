#include "waiting.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <poll.h>

namespace softverbs::device_tests {

namespace {

/// The last few of them, which are those that tell what went wrong.
std::string list_of(const std::vector<ibv_wc>& completions) {
  constexpr std::size_t enough = 8;
  auto text = fmt::format("{} completions", completions.size());
  const auto first = completions.size() - std::min(completions.size(), enough);
  for (auto i = first; i < completions.size(); ++i) {
    text += fmt::format("\n  {}: {} (opcode {}, queue pair {:#x})", completions[i].wr_id,
                        ibv_wc_status_str(completions[i].status),
                        static_cast<int>(completions[i].opcode), completions[i].qp_num);
  }
  return text;
}

bool poll_descriptor(int fd, int milliseconds) {
  pollfd what{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&what, 1, milliseconds) == 1;
}

}  // namespace

std::vector<ibv_wc> wait_for(ibv_cq* cq, std::size_t count) {
  std::vector<ibv_wc> found;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::array<ibv_wc, 16> room{};
  while (found.size() < count) {
    const auto most = static_cast<int>(std::min(room.size(), count - found.size()));
    const int some = ibv_poll_cq(cq, most, room.data());
    if (some < 0) throw std::runtime_error("ibv_poll_cq failed");
    found.insert(found.end(), room.begin(), room.begin() + some);
    if (some > 0) continue;
    if (std::chrono::steady_clock::now() >= deadline) {
      throw std::runtime_error(
          fmt::format("waited for {} completions and got {}", count, list_of(found)));
    }
    std::this_thread::yield();
  }
  return found;
}

ibv_wc wait_for_one(ibv_cq* cq) { return wait_for(cq, 1).front(); }

std::vector<ibv_wc> wait_for_successes(ibv_cq* cq, std::size_t count) {
  auto found = wait_for(cq, count);
  if (std::ranges::any_of(found,
                          [](const ibv_wc& each) { return each.status != IBV_WC_SUCCESS; })) {
    throw std::runtime_error("not all is well: " + list_of(found));
  }
  return found;
}

ibv_wc wait_for_success(ibv_cq* cq) { return wait_for_successes(cq, 1).front(); }

std::vector<ibv_wc> completions_in(ibv_cq* cq) {
  std::vector<ibv_wc> found;
  ibv_wc one{};
  while (ibv_poll_cq(cq, 1, &one) == 1) found.push_back(one);
  return found;
}

bool is_readable(int fd) { return poll_descriptor(fd, 0); }

void wait_until_readable(int fd) {
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  if (!poll_descriptor(fd, static_cast<int>(limit))) throw std::runtime_error("no event came");
}

ibv_async_event wait_for_event(ibv_context* context, ibv_event_type wanted) {
  wait_until_readable(context->async_fd);
  ibv_async_event event{};
  if (ibv_get_async_event(context, &event) != 0) {
    throw std::runtime_error("ibv_get_async_event failed");
  }
  if (event.event_type != wanted) {
    ibv_ack_async_event(&event);
    throw std::runtime_error(fmt::format(R"(the event is "{}" instead of "{}")",
                                         ibv_event_type_str(event.event_type),
                                         ibv_event_type_str(wanted)));
  }
  return event;
}

void discard_events(ibv_context* context) {
  while (is_readable(context->async_fd)) {
    ibv_async_event event{};
    if (ibv_get_async_event(context, &event) == 0) ibv_ack_async_event(&event);
  }
}

}  // namespace softverbs::device_tests
