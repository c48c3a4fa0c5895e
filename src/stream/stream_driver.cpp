#include "stream/stream_driver.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "stream/polling_phase.hpp"

namespace RDMAXX_NAMESPACE::detail {

namespace {

// How many requests are posted at once.
constexpr std::size_t batch = 16;
// How much a read copies before it makes progress again.
constexpr std::size_t copied_at_once = 65536;

}  // namespace

stream_driver::stream_driver(stream_device& device, stream_protocol::protocol_engine engine,
                             const stream_options& options)
    : device_(device),
      engine_(std::move(engine)),
      keep_alive_(options.keep_alive, options.keep_alive_timeout, library_clock::now()),
      keep_alive_timeout_(options.keep_alive_timeout),
      send_buffers_(engine_.sending().buffers()) {}

// --- moving --------------------------------------------------------------------------------------

void stream_driver::lose(const error& why) {
  ++activity_;
  is_down_ = true;
  if (!cause_) cause_ = why;
}

void stream_driver::lose(const work_completion& completion) {
  is_down_ = true;
  // A flushed completion is only a consequence of the first failure.
  if (completion.status() != wc_status::flushed && !cause_) cause_ = completion.error();
}

void stream_driver::poll_receives() {
  std::array<work_completion, 32> completions;
  for (;;) {
    const auto polled = device_.poll(queue::receives, completions);
    if (!polled) {
      lose(polled.error());
      return;
    }
    for (const auto& each : *polled) {
      if (!each) {
        lose(each);
        continue;
      }
      keep_alive_.heard();
      last_received_bytes_ = each.byte_len();
      // A failure stays in the engine, which still notifies the peer.
      (void)engine_.received(each.id().value(), each.byte_len());
    }
    activity_ += (*polled).size();
    if ((*polled).size() < completions.size()) return;
  }
}

void stream_driver::poll_sends() {
  std::array<work_completion, 16> completions;
  for (;;) {
    const auto polled = device_.poll(queue::sends, completions);
    if (!polled) {
      lose(polled.error());
      return;
    }
    for (const auto& each : *polled) {
      if (!each) lose(each);
      if (each) keep_alive_.heard();
      if (each.id().value() == stream_device::probe_id) {
        is_probing_ = false;
        continue;
      }
      last_completed_ = static_cast<std::uint32_t>(each.id().value());
      if (each) engine_.sending().sent_up_to(last_completed_);
    }
    activity_ += (*polled).size();
    if ((*polled).size() < completions.size()) return;
  }
}

void stream_driver::progress() {
  poll_sends();
  poll_receives();
  post_due();
}

void stream_driver::make_room() {
  poll_sends();
  if (engine_.sending().waits_for_credits()) poll_receives();
}

void stream_driver::post_due() {
  if (!is_down_) {
    post_receives();
    if (!is_down_) post_sends();
  }
  if (is_down_) {
    poll_receives();  // frames that arrived before
    take_connection_events();
    engine_.connection_lost(peer_has_disconnected_);
  }
  if (engine_.wants_disconnect() || is_down_) disconnect();
}

void stream_driver::post_receives() {
  auto& receiving = engine_.receiving();
  auto next = receiving.next_to_post();
  if (!next) return;
  std::array<stream_device::receive_request, batch> requests;
  while (next) {
    std::size_t count = 0;
    for (; next && count < batch; next = receiving.next_to_post())
      requests[count++] = {.buffer = *next, .into = receiving.memory_of(*next)};
    const auto outcome = device_.post_receives(std::span(requests).first(count));
    if (outcome.failure) {
      lose(*outcome.failure);
      return;
    }
    for (std::size_t i = 0; i < count; ++i) receiving.posted(requests[i].buffer);
    activity_ += count;
  }
}

void stream_driver::post_sends() {
  auto next = engine_.next_send();
  if (!next) return;
  std::array<stream_device::send_request, batch> requests;
  std::uint32_t silent = 0;
  while (next) {
    std::size_t count = 0;
    while (next && count < batch) {
      auto& request = requests[count++];
      request.frame = *next;
      next = engine_.next_send();
      // The completion of the last request of a batch covers all before it. One in the middle is
      // signalled, too, so that half of the slots can be refilled while the device sends the other
      // half.
      const bool is_last = !next || count == batch;
      request.is_signaled = is_last || ++silent == send_buffers_ / 2;
      if (request.is_signaled) silent = 0;
    }
    const auto outcome = device_.post_sends(std::span(requests).first(count));
    const auto refused = count - outcome.count;
    last_posted_ = requests[count - 1].frame.id - static_cast<std::uint32_t>(refused);
    activity_ += outcome.count;
    if (outcome.failure) {
      lose(*outcome.failure);
      return;
    }
  }
}

std::size_t stream_driver::read(std::span<std::byte> into) {
  for (auto rest = into;;) {
    const auto part = rest.first(std::min(rest.size(), copied_at_once));
    const auto got = engine_.receiving().read(part);
    rest = rest.subspan(got);
    if (rest.empty() || got < part.size()) return into.size() - rest.size();
    progress();  // software devices make progress when polled
  }
}

std::size_t stream_driver::write(std::span<const std::byte> from) {
  const auto half = engine_.sending().frame_capacity() * (send_buffers_ / 2);
  for (auto rest = from;;) {
    const auto part = rest.first(std::min<std::size_t>(rest.size(), half));
    const auto taken = engine_.sending().write(part);
    rest = rest.subspan(taken);
    if (rest.empty() || taken < part.size()) return from.size() - rest.size();
    progress();  // also picks up credits, so that the call need not wait for them
  }
}

// --- waiting -------------------------------------------------------------------------------------

bool stream_driver::arm(queue which) {
  const auto armed = device_.arm(which);
  if (!armed) lose(armed.error());
  return !armed || *armed;
}

void stream_driver::arm(interest what) {
  (void)arm(queue::receives);
  if (what == interest::anything) (void)arm_sends();
  progress();
  if (engine_.waits_for_sends() && arm_sends()) progress();
}

void stream_driver::take_completion_events() {
  if (const auto taken = device_.take_completion_events(); !taken) lose(taken.error());
}

void stream_driver::take_connection_events() {
  using enum stream_device::connection_event;
  while (const auto event = device_.next_connection_event()) {
    ++activity_;
    if (*event == other) continue;
    if (*event == disconnected && !has_disconnected_) peer_has_disconnected_ = true;
    if (*event == device_removed)
      lose(errno_error("using a stream", ENODEV, "the device has been removed"));
    // Flushed queues cannot be relied on: they may be empty, or the device may be gone.
    is_down_ = true;
    disconnect();  // answers the peer
  }
}

void stream_driver::tend(time_point now) {
  if (is_down_) return;
  const bool is_under_way = is_probing_ || engine_.sending().in_flight() > 0;
  switch (keep_alive_.next(now, is_under_way)) {
    case keep_alive::action::none:
      return;
    case keep_alive::action::ask: {
      const auto posted = device_.post_probe();
      is_probing_ = posted.has_value();
      if (!posted) lose(posted.error());
      return;
    }
    case keep_alive::action::give_up:
      lose(errno_error(
          "using a stream", EHOSTUNREACH,
          fmt::format("the peer's device has not answered a keep-alive probe for {} ms",
                      keep_alive_timeout_.count()),
          "its host, its program (if the device is softverbs) or the path to it has failed"));
      return;
  }
}

bool stream_driver::receives_bulk() const noexcept {
  return last_received_bytes_ >= polling_phase::bulk_bytes;
}

// --- the end -------------------------------------------------------------------------------------

void stream_driver::abort(std::optional<error> cause) {
  engine_.abort();
  if (cause) cause_ = std::move(cause);
}

void stream_driver::disconnect() {
  if (std::exchange(has_disconnected_, true)) return;
  ++activity_;
  device_.disconnect();
}

error stream_driver::explain(const error& reported) const {
  if (!cause_ || reported != std::errc::connection_aborted) return reported;
  return cause_->within(reported.operation());
}

bool stream_driver::has_caller_memory() const noexcept {
  // Requests that were reported as refused may have completed as well.
  return device_.has_queue_pair() && static_cast<std::int32_t>(last_completed_ - last_posted_) < 0;
}

void stream_driver::release_caller_memory() {
  if (!device_.has_queue_pair()) return;  // an earlier failure has destroyed it
  disconnect();
  device_.flush_requests();
}

// iWARP may accept requests after the connection has ended and never complete them; a removed
// device completes nothing. Without a queue pair the memory is no longer read.
void stream_driver::destroy_queue_pair() {
  is_down_ = true;
  post_due();
  device_.destroy_queue_pair();
}

}  // namespace RDMAXX_NAMESPACE::detail
