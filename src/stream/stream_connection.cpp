#include "stream/stream_connection.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <rdmaxx/core/log.hpp>
#include <rdmaxx/core/readiness.hpp>

#include "stream/deferred_flush.hpp"

namespace RDMAXX_NAMESPACE::detail {

namespace {

using stream_protocol::protocol_engine;

std::size_t total(std::span<const std::span<const std::byte>> pieces) {
  std::size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

// How long an abort waits until the peer has been notified.
constexpr std::chrono::milliseconds patience_of_abort{100};
// How long flushed requests may take to complete.
constexpr std::chrono::milliseconds patience_of_flush{500};

}  // namespace

// --- beginning and end -------------------------------------------------------------------------

/// Called by the last owner.
struct stream_connection::ending {
  void operator()(stream_connection* whose) const {
    if (whose->is_made_before_fork()) return;
    whose->linger();
    delete whose;
  }
};

result<std::shared_ptr<stream_connection>> stream_connection::create(
    std::unique_ptr<connected_device> device, const stream_protocol::agreement& terms,
    const stream_options& options) {
  RDMAXX_TRY(auto engine, protocol_engine::create(terms, device->memory()));
  std::shared_ptr<stream_connection> made(
      new stream_connection(std::move(device), std::move(engine), options), ending{});
  RDMAXX_TRY(made->device_->attach(made->waiter_));
  return made;
}

stream_connection::stream_connection(std::unique_ptr<connected_device> device,
                                     protocol_engine engine, const stream_options& options)
    : options_(options),
      device_(std::move(device)),
      driver_(*device_, std::move(engine), options),
      waiter_(driver_, device_->waiting(), options.spin) {}

stream_connection::~stream_connection() {
  if (has_been_deferred_) cancel_deferred_flush(*this);
  device_->release(driver_.engine());
}

void stream_connection::linger() {
  auto held = waiter_.acquire();
  log_unread();
  if (!driver_.is_down() && !driver_.has_disconnected()) {
    sending().shutdown();
    receiving().shutdown();  // a peer that still writes must learn that nobody reads
    (void)waiter_.wait(held, deadline_after(options_.linger), [this] {
      return (sending().has_sent_fin() && sending().in_flight() == 0) ||
             (engine().failure() && engine().wants_disconnect()) || driver_.is_down();
    });
    driver_.disconnect();
  }
  if (const auto lost = sending().unconfirmed(); lost != 0 && !user_knows_of_failure_) {
    log(log_level::warning, fmt::format("{} → {}: {} bytes that were written may not have arrived",
                                        describe(connection().local_address()),
                                        describe(connection().peer_address()), lost));
  }
}

void stream_connection::log_unread() {
  const auto unread = receiving().available();
  if (unread == 0) return;
  log(log_level::warning, fmt::format("{} → {}: {} bytes that had arrived were not read",
                                      describe(connection().local_address()),
                                      describe(connection().peer_address()), unread));
}

// --- what the calls have in common -------------------------------------------------------------

void stream_connection::post_due() {
  driver_.post_due();
  waiter_.publish_activity();
}

void stream_connection::progress_and_publish() {
  driver_.progress();
  waiter_.publish();
}

error stream_connection::reported(const error& failure) {
  user_knows_of_failure_ = true;
  return driver_.explain(failure);
}

error stream_connection::timed_out(std::string_view operation, timeout_type timeout,
                                   std::string_view peer_does, std::string hint) const {
  return timed_out_error(operation, timeout.value_or(std::chrono::milliseconds::zero()),
                         fmt::format("{} to {}", describe(connection().peer_address()), peer_does),
                         std::move(hint));
}

void stream_connection::defer_unsent() {
  if (waiter_.has_leader() && sending().has_unsent() && driver_.arm_sends())
    progress_and_publish();  // the leader continues
  if (!sending().has_unsent() || is_deferred_) return;
  is_deferred_ = defer_flush(*this, options_.gather);
  if (is_deferred_) has_been_deferred_ = true;
}

bool stream_connection::flush_deferred() {
  const auto held = waiter_.acquire();
  sending().flush();
  if (waiter_.is_unwatched()) driver_.take_connection_events();
  progress_and_publish();
  is_deferred_ = sending().has_unsent();
  return is_deferred_;
}

result<int> stream_connection::fd() {
  RDMAXX_TRY(check_generation(generation_, "stream::fd"));
  const auto held = waiter_.acquire();
  return waiter_.fd();
}

stream_protocol::engine_statistics stream_connection::statistics() {
  if (is_made_before_fork()) return {};
  const auto held = waiter_.acquire();
  return engine().statistics();
}

// --- reading -----------------------------------------------------------------------------------

result<std::optional<std::size_t>> stream_connection::read(
    std::span<const std::span<std::byte>> into, time_point deadline) {
  RDMAXX_TRY(check_generation(generation_, "reading from a stream"));
  if (std::ranges::all_of(into, &std::span<std::byte>::empty)) return 0;
  auto held = waiter_.acquire();
  if (!receiving().can_read() &&
      !waiter_.wait(
          held, deadline, [this] { return receiving().can_read(); }, interest::arrivals)) {
    waiter_.reader_tries_again(true);
    return std::nullopt;
  }
  waiter_.reader_tries_again(false);
  std::size_t count = 0;
  for (const auto& piece : into) {
    const auto got = driver_.read(piece);
    count += got;
    if (got < piece.size()) break;
  }
  post_due();
  if (count == 0) {
    if (const auto state = receiving().check(); !state) return reported(state.error());
  }
  return count;
}

result<std::span<const std::byte>> stream_connection::peek(timeout_type timeout) {
  RDMAXX_TRY(check_generation(generation_, "reading from a stream"));
  auto held = waiter_.acquire();
  if (!waiter_.wait(
          held, wait_end(timeout), [this] { return receiving().can_read(); }, interest::arrivals)) {
    return timed_out("reading from a stream", timeout, "write");
  }
  const auto here = receiving().readable();
  if (here.empty()) {
    if (const auto state = receiving().check(); !state) return reported(state.error());
  }
  return here;
}

void stream_connection::consume(std::size_t bytes) {
  if (is_made_before_fork()) return;
  const auto held = waiter_.acquire();
  receiving().consume(bytes);
  post_due();
}

// --- writing -----------------------------------------------------------------------------------

result<std::optional<std::size_t>> stream_connection::write(
    std::span<const std::span<const std::byte>> from, time_point deadline, bool until_all) {
  RDMAXX_TRY(check_generation(generation_, "writing to a stream"));
  if (std::ranges::all_of(from, &std::span<const std::byte>::empty)) return 0;
  auto held = waiter_.acquire();
  sending().announce(total(from));
  driver_.make_room();
  if (!sending().can_write() &&
      !waiter_.wait(held, deadline, [this] { return sending().can_write(); })) {
    waiter_.writer_tries_again(true);
    sending().announce(0);
    defer_unsent();
    return std::nullopt;
  }
  waiter_.writer_tries_again(false);
  std::size_t count = 0;
  bool is_all = true;
  for (auto piece = from.begin(); piece != from.end() && is_all; ++piece) {
    const auto taken = driver_.write(*piece);
    count += taken;
    is_all = taken == piece->size();
  }
  if (options_.gather.count() == 0) sending().flush();
  post_due();
  if (count == 0) {
    if (const auto state = sending().check(); !state) return reported(state.error());
  }
  if (is_all || !until_all) {
    sending().announce(0);  // the rest may never be written
    defer_unsent();
  }
  return count;
}

result<void> stream_connection::write_registered(const memory_region& region,
                                                 std::span<const std::byte> bytes,
                                                 timeout_type timeout) {
  RDMAXX_TRY(check_generation(generation_, "writing to a stream"));
  RDMAXX_TRY(region.try_gather(bytes));
  auto held = waiter_.acquire();
  if (region.native()->pd != device_->resources().send_memory.native()->pd) {
    return misuse_error("writing to a stream",
                        "the memory is registered in another protection domain",
                        "register it in the stream's own: native().qp.pd()");
  }
  const auto tag = reinterpret_cast<std::uint64_t>(&region);
  const auto deadline = wait_end(timeout);
  sending().announce(bytes.size());
  bool in_time = true;
  while (!bytes.empty() && in_time) {
    in_time = waiter_.wait(held, deadline, [this] { return sending().can_write_in_place(); });
    if (!in_time) break;
    const auto taken = sending().write_in_place(bytes, tag);
    post_due();
    if (taken == 0) break;  // permanently; what was accepted may still be in flight
    bytes = bytes.subspan(taken);
  }
  sending().announce(0);
  const auto end = sending().written_position();
  sending().flush();
  post_due();
  if (in_time) {
    in_time = waiter_.wait(held, deadline, [&] {
      return sending().released_position() >= end || engine().failure() || driver_.is_down();
    });
  }
  if (!in_time) {
    driver_.abort(timed_out("writing to a stream", timeout,
                            "receive what is sent from the caller's memory",
                            "the stream was aborted to release the memory; set a longer timeout"));
    tell_of_abort(held);
  }
  if (!in_time || engine().failure() || driver_.is_down()) reclaim_memory(held);
  if (const auto state = sending().check(); !state) return reported(state.error());
  return {};
}

void stream_connection::reclaim_memory(held_lock& held) {
  driver_.release_caller_memory();
  waiter_.publish();
  const auto is_done = [this] { return !driver_.has_caller_memory(); };
  if (waiter_.wait(held, deadline_after(patience_of_flush), is_done)) return;
  driver_.destroy_queue_pair();
  waiter_.publish();
}

result<void> stream_connection::flush(timeout_type timeout) {
  RDMAXX_TRY(check_generation(generation_, "flushing a stream"));
  auto held = waiter_.acquire();
  sending().flush();
  const auto arrived = [this] {
    return sending().released_position() == sending().written_position() || engine().failure() ||
           driver_.is_down();
  };
  if (!waiter_.wait(held, wait_end(timeout), arrived))
    return timed_out("flushing a stream", timeout, "receive what was written");
  if (const auto& failure = engine().failure()) return reported(*failure);
  // A peer that has stopped reading has not received everything.
  const auto state = sending().check();
  if (!state && state.error().category() == error_category::peer) return reported(state.error());
  return {};
}

// --- closing -----------------------------------------------------------------------------------

void stream_connection::shutdown_write() {
  if (is_made_before_fork()) return;
  const auto held = waiter_.acquire();
  sending().shutdown();
  progress_and_publish();
  defer_unsent();
}

void stream_connection::shutdown_read() {
  if (is_made_before_fork()) return;
  const auto held = waiter_.acquire();
  receiving().shutdown();
  progress_and_publish();
}

result<void> stream_connection::close(std::chrono::milliseconds timeout) {
  const auto deadline = deadline_after(timeout);
  RDMAXX_TRY(check_generation(generation_, "closing a stream"));
  auto held = waiter_.acquire();
  sending().shutdown();
  waiter_.publish();
  const auto finished = [this] {
    receiving().consume(receiving().available());
    driver_.post_due();
    return engine().wants_disconnect() || engine().failure();
  };
  const bool in_time = waiter_.wait(held, deadline, finished);
  if (const auto& failure = engine().failure(); in_time && failure) return reported(*failure);
  if (!in_time) {
    driver_.abort();
    tell_of_abort(held);
    driver_.disconnect();
    return timed_out("closing a stream", timeout, "end its side of the stream",
                     "the stream was aborted: close both sides, or set a longer timeout")
        .as(error_category::gone);
  }
  (void)waiter_.wait(held, deadline, [this] { return driver_.is_down(); });
  return {};
}

result<void> stream_connection::close_reading(std::chrono::milliseconds timeout) {
  RDMAXX_TRY(check_generation(generation_, "closing a stream"));
  auto held = waiter_.acquire();
  const auto ended = [this] {
    receiving().consume(receiving().available());
    driver_.post_due();
    return receiving().at_end() || engine().failure();
  };
  if (!waiter_.wait(held, deadline_after(timeout), ended, interest::arrivals)) {
    return timed_out("closing the read half of a stream", timeout, "end its side of the stream");
  }
  if (const auto state = receiving().check(); !state) return reported(state.error());
  return {};
}

result<void> stream_connection::close_writing(std::chrono::milliseconds timeout) {
  RDMAXX_TRY(check_generation(generation_, "closing a stream"));
  auto held = waiter_.acquire();
  sending().shutdown();
  waiter_.publish();
  if (!waiter_.wait(held, deadline_after(timeout),
                    [this] { return sending().has_sent_fin() || engine().failure(); })) {
    defer_unsent();
    return timed_out("closing the write half of a stream", timeout,
                     fmt::format("receive {} bytes", sending().unconfirmed()));
  }
  if (const auto& failure = engine().failure(); failure && !sending().has_sent_fin())
    return reported(*failure);
  if (const auto lost = sending().unconfirmed(); lost != 0) {
    user_knows_of_failure_ = true;
    return error({.operation = "closing the write half of a stream",
                  .code = std::make_error_code(std::errc::broken_pipe),
                  .category = error_category::peer,
                  .problem = fmt::format("the peer has stopped reading {} bytes before", lost)});
  }
  return {};
}

void stream_connection::tell_of_abort(held_lock& held) {
  waiter_.publish();
  (void)waiter_.wait(held, deadline_after(patience_of_abort),
                     [this] { return engine().wants_disconnect() || driver_.is_down(); });
}

void stream_connection::abort() {
  if (is_made_before_fork()) return;
  auto held = waiter_.acquire();
  driver_.abort();
  tell_of_abort(held);
  driver_.disconnect();
}

void stream_connection::give_up_reading() {
  if (is_made_before_fork()) return;
  {
    const auto held = waiter_.acquire();
    log_unread();
  }
  shutdown_read();
}

}  // namespace RDMAXX_NAMESPACE::detail
