#include "stream/conversation.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include <rdmaxx/core/log.hpp>

#include "stream/joint_descriptor.hpp"
#include "stream/polling_phase.hpp"
#include "stream/straggler_service.hpp"

namespace rdmaxx::inline v0::detail {

namespace {

using stream_protocol::protocol_engine;

// Not a sequence number, which has 32 bits.
constexpr wr_id question_id{std::uint64_t{1} << 32};
// How long an abort waits for the peer to be told.
constexpr std::chrono::milliseconds patience_of_abort{100};
// How long what was flushed may take to complete.
constexpr std::chrono::milliseconds patience_of_flush{500};
// How much a read copies before it looks after the device again.
constexpr std::size_t copied_at_once = 65536;

/// One more, as long as it lives.
class counted {
 public:
  explicit counted(unsigned& count) : count_(count) { ++count_; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --count_; }

 private:
  unsigned& count_;
};

}  // namespace

// --- making one --------------------------------------------------------------------------------

result<std::shared_ptr<conversation>> conversation::create(cm::connection connected,
                                                           stream_equipment equipment,
                                                           const stream_protocol::agreement& terms,
                                                           const stream_options& options) {
  RDMAXX_TRY(auto engine,
             protocol_engine::create(terms, {.send = equipment.send_memory.bytes(),
                                             .send_slot_bytes = options.send_buffer_bytes,
                                             .receive = equipment.receive_memory.bytes()}));
  return std::make_shared<conversation>(std::move(connected), std::move(equipment),
                                        std::move(engine), options);
}

conversation::conversation(cm::connection connected, stream_equipment equipment,
                           protocol_engine engine, const stream_options& options)
    : options_(options),
      equipment_(std::move(equipment)),
      connection_(std::move(connected)),
      engine_(std::move(engine)),
      last_posted_(engine_.terms().own_first_sequence - 1),
      last_completed_(last_posted_),
      keep_alive_(options.keep_alive, options.keep_alive_timeout, stream_clock::now()) {}

conversation::~conversation() = default;

result<int> conversation::fd() {
  RDMAXX_TRY(check_generation(generation_, "stream::fd"));
  const lock held(mutex_);
  if (descriptor_ == nullptr) {
    RDMAXX_TRY(descriptor_, joint_descriptor::create({equipment_.channel.fd(), connection_.fd()}));
    arm_all();
  }
  return descriptor_->fd();
}

// --- what happens on the connection --------------------------------------------------------------

void conversation::is_lost(const error& why) {
  is_down_ = true;
  if (!cause_) cause_ = why;
}

void conversation::went_down(const work_completion& completion) {
  is_down_ = true;
  // What is flushed only follows from something else.
  if (completion.status() != wc_status::flushed && !cause_) cause_ = completion.error();
}

void conversation::poll_receives() {
  std::array<work_completion, 32> completions;
  for (;;) {
    const auto polled = equipment_.recv_cq.poll(completions);
    if (!polled) {
      is_lost(polled.error());
      return;
    }
    for (const auto& each : *polled) {
      if (!each) {
        went_down(each);
        continue;
      }
      keep_alive_.heard();
      last_received_bytes_ = each.byte_len();
      // A failure stays in the engine, which still tells the peer.
      (void)engine_.received(each.id().value(), each.byte_len());
    }
    if ((*polled).size() < completions.size()) return;
  }
}

void conversation::poll_sends() {
  std::array<work_completion, 16> completions;
  for (;;) {
    const auto polled = equipment_.send_cq.poll(completions);
    if (!polled) {
      is_lost(polled.error());
      return;
    }
    for (const auto& each : *polled) {
      if (!each) went_down(each);
      if (each) keep_alive_.heard();
      if (each.id() == question_id) {
        question_under_way_ = false;
        continue;
      }
      last_completed_ = static_cast<std::uint32_t>(each.id().value());
      if (each) engine_.sent_up_to(last_completed_);
    }
    if ((*polled).size() < completions.size()) return;
  }
}

void conversation::progress() {
  poll_sends();
  poll_receives();
  advance();
}

void conversation::advance() {
  if (!is_down_) {
    post_receives();
    if (!is_down_) post_sends();
  }
  if (is_down_) {
    poll_receives();  // what had arrived before
    handle_connection_events();
    engine_.connection_lost(peer_has_disconnected_);
  }
  if (engine_.wants_disconnect() || is_down_) end_connection();
  if (followers_ > 0) changed_.notify_all();
  // The event of what has come may have been taken by a call that was after something else.
  if (descriptor_ != nullptr) {
    descriptor_->set_readable((reader_tries_again_ && engine_.can_read()) ||
                              (writer_tries_again_ && engine_.can_write()));
  }
}

void conversation::post_receives() {
  auto next = engine_.next_receive();
  if (!next) return;
  std::array<recv_slot, 16> slots;
  std::array<std::size_t, 16> numbers{};
  while (next) {
    recv_list list(slots);
    for (; next && !list.full(); next = engine_.next_receive()) {
      numbers[list.size()] = *next;
      const auto place = equipment_.receive_memory.scatter_unchecked(engine_.receive_slot(*next));
      list.push_unchecked(recv_wr{.id = wr_id{*next}, .into = place});
    }
    if (const auto posted = connection_.qp().post(list); !posted) {
      is_lost(posted.error());
      return;
    }
    for (std::size_t i = 0; i < list.size(); ++i) engine_.posted(numbers[i]);
  }
}

void conversation::post_sends() {
  auto next = engine_.next_send();
  if (!next) return;
  std::array<send_slot, 16> slots;
  std::array<std::array<gather_element, 2>, 16> elements;
  std::uint32_t untold = 0;
  while (next) {
    send_list list(slots, connection_.qp().max_inline());
    std::uint32_t last = 0;
    while (next && !list.full()) {
      const auto frame = *next;
      last = frame.sequence;
      auto& parts = elements[list.size()];
      std::size_t count = 1;
      parts[0] = equipment_.send_memory.gather_unchecked(frame.bytes);
      if (!frame.in_place.empty()) {
        const auto* const region = reinterpret_cast<const memory_region*>(frame.tag);
        parts[count++] = region->gather_unchecked(frame.in_place);
      }
      next = engine_.next_send();
      // The last one of a batch tells of all before it. So does one in the middle: half of the
      // slots are filled again while the device is busy with the other half.
      const bool is_last = !next || list.size() + 1 == list.capacity();
      const bool tells = is_last || ++untold == options_.send_buffers / 2;
      if (tells) untold = 0;
      list.push_unchecked(send_wr{.id = wr_id{frame.sequence},
                                  .from = std::span(parts).first(count),
                                  .flags = tells ? send_flag::signaled | send_flag::inline_if_fits
                                                 : send_flags(send_flag::inline_if_fits)});
    }
    const auto posted = connection_.qp().post(list);
    const auto refused = posted ? 0 : list.size() - posted.error().first_not_posted().value_or(0);
    last_posted_ = last - static_cast<std::uint32_t>(refused);
    if (!posted) {
      is_lost(posted.error());
      return;
    }
  }
}

void conversation::end_connection() {
  if (std::exchange(has_disconnected_, true)) return;
  if (!connection_.disconnect()) (void)connection_.qp().to_error();
}

void conversation::handle_connection_events() {
  for (;;) {
    const auto fetched = connection_.id().channel().try_get_event();
    if (!fetched) return;
    const auto& event = *fetched;
    if (!event) return;
    const auto type = event->type();
    if (type == cm_event_type::disconnected && !has_disconnected_) peer_has_disconnected_ = true;
    if (type == cm_event_type::device_removal)
      is_lost(errno_error("using a stream", ENODEV, "the device has been removed"));
    if (type == cm_event_type::disconnected || type == cm_event_type::device_removal) {
      // That queues are flushed tells nothing more: they may be empty, or the device be gone.
      is_down_ = true;
      end_connection();  // the answer to the peer
    }
  }
}

void conversation::look_for_life() {
  if (is_down_) return;
  const bool under_way = question_under_way_ || engine_.in_flight() > 0;
  switch (keep_alive_.next(stream_clock::now(), under_way)) {
    case keep_alive::action::none:
      return;
    case keep_alive::action::ask: {
      // Nothing, written to nowhere: the device acknowledges it without the peer's program.
      const auto posted = connection_.qp().post(write_wr{.id = question_id});
      question_under_way_ = posted.has_value();
      if (!posted) is_lost(posted.error());
      return;
    }
    case keep_alive::action::give_up:
      is_lost(errno_error(
          "using a stream", EHOSTUNREACH,
          fmt::format("the peer's device has not answered a sign of life for {} ms",
                      options_.keep_alive_timeout.count()),
          "its host, its program (if the device is softverbs) or the way there has failed"));
      return;
  }
}

error conversation::failure_of(const error& told) {
  user_knows_ = true;
  if (!cause_ || told != std::errc::connection_aborted) return told;
  return cause_->within(told.operation());
}

// --- waiting -----------------------------------------------------------------------------------

template <class Ready>
bool conversation::spin(lock& held, time_point deadline, Ready ready, awaited what) {
  // In real time, whatever a test does with the deadlines' clock.
  using clock = std::chrono::steady_clock;
  using enum polling_phase::step;
  polling_phase phase(
      clock::now(), std::min<stream_clock::duration>(deadline - stream_clock::now(), options_.spin),
      what == awaited::anything || last_received_bytes_ >= polling_phase::bulk_bytes);
  for (auto step = phase.next(clock::now()); step != over; step = phase.next(clock::now())) {
    held.unlock();  // others may have work meanwhile
    if (step == give_way) std::this_thread::yield();
    held.lock();
    progress();
    if (ready()) return true;
  }
  return false;
}

void conversation::sleep(lock& held, time_point deadline) {
  const bool was_down = is_down_;
  look_for_life();
  if (is_down_ != was_down) return;
  const auto until = is_down_ ? deadline : std::min(deadline, keep_alive_.wake_at());
  std::array<pollfd, 2> watched{
      pollfd{.fd = equipment_.channel.fd(), .events = POLLIN, .revents = 0},
      pollfd{.fd = connection_.fd(), .events = POLLIN, .revents = 0}};
  held.unlock();
  // An error is a signal: whoever waits looks again.
  ::poll(watched.data(), watched.size(), stream_clock::milliseconds_until(until));
  held.lock();
  drain_events();
  if (watched[1].revents != 0) handle_connection_events();
}

void conversation::drain_events() {
  while (receives_are_armed_ || sends_are_armed_) {  // each queue that is armed raises one event
    const auto fetched = equipment_.channel.try_get();
    if (!fetched) {
      is_lost(fetched.error());
      return;
    }
    const auto& event = *fetched;
    if (!event) return;
    const bool is_receive = event->queue().native() == equipment_.recv_cq.native();
    (is_receive ? receives_are_armed_ : sends_are_armed_) = false;
  }
}

void conversation::arm_receives() {
  if (std::exchange(receives_are_armed_, true)) return;
  if (const auto armed = equipment_.recv_cq.req_notify(); !armed) is_lost(armed.error());
}

bool conversation::arm_sends() {
  if (std::exchange(sends_are_armed_, true)) return false;
  if (const auto armed = equipment_.send_cq.req_notify(); !armed) is_lost(armed.error());
  return true;
}

void conversation::arm_all() {
  arm_receives();
  (void)arm_sends();
  progress();
}

template <class Ready>
bool conversation::wait(lock& held, time_point deadline, Ready ready, awaited what) {
  progress();
  while (!ready()) {
    if (stream_clock::now() >= deadline) {
      if (!has_leader_) {
        drain_events();
        handle_connection_events();
      }
      arm_all();  // whoever does not wait may watch the descriptor instead
      return ready();
    }
    if (has_leader_) {
      const counted waiting(followers_);
      if (what == awaited::anything && arm_sends()) {  // a leader who reads may sleep without
        progress();
        continue;
      }
      if (deadline == time_point::max()) {
        changed_.wait(held);
      } else {
        changed_.wait_for(held,
                          std::chrono::milliseconds(stream_clock::milliseconds_until(deadline)));
      }
      continue;
    }
    lead(held, deadline, ready, what);
  }
  if (descriptor_ != nullptr) arm_all();  // what was waited for is not all that comes
  return true;
}

/// Ends in a handover, also when something is thrown.
class conversation::leadership {
 public:
  explicit leadership(conversation& over) : over_(over) { over_.has_leader_ = true; }
  leadership(const leadership&) = delete;
  leadership& operator=(const leadership&) = delete;
  ~leadership() {
    over_.has_leader_ = false;
    if (over_.followers_ > 0) over_.changed_.notify_all();
  }

 private:
  conversation& over_;
};

template <class Ready>
void conversation::lead(lock& held, time_point deadline, Ready ready, awaited what) {
  const leadership mine(*this);
  if (spin(held, deadline, ready, what)) return;
  arm_receives();
  if (what == awaited::anything || followers_ > 0) (void)arm_sends();
  progress();
  if (engine_.waits_for_sends() && arm_sends()) progress();
  if (!ready()) sleep(held, deadline);
  progress();
}

void conversation::leave_to_stragglers() {
  if (has_leader_ && engine_.has_unsent() && arm_sends()) progress();  // the leader goes on
  if (!engine_.has_unsent() || is_pushed_) return;
  is_pushed_ = push_later(shared_from_this(), options_.gather);
}

bool conversation::push() {
  const lock held(mutex_);
  engine_.flush();
  if (!has_leader_ && descriptor_ == nullptr) handle_connection_events();  // nobody watches them
  progress();
  is_pushed_ = engine_.has_unsent();
  return is_pushed_;
}

// --- what users want -----------------------------------------------------------------------------

result<std::optional<std::size_t>> conversation::read(std::span<const std::span<std::byte>> into,
                                                      time_point deadline) {
  RDMAXX_TRY(check_generation(generation_, "reading from a stream"));
  if (std::ranges::all_of(into, &std::span<std::byte>::empty)) return 0;
  lock held(mutex_);
  if (!engine_.can_read() &&
      !wait(held, deadline, [this] { return engine_.can_read(); }, awaited::arrival)) {
    reader_tries_again_ = true;
    return std::nullopt;
  }
  reader_tries_again_ = false;
  std::size_t count = 0;
  for (const auto& piece : into) {
    const auto got = copy_out(piece);
    count += got;
    if (got < piece.size()) break;
  }
  advance();
  if (count == 0) {
    if (const auto state = engine_.check_read(); !state) return failure_of(state.error());
  }
  return count;
}

// The peer may fill again what has been read while the rest is copied.
std::size_t conversation::copy_out(std::span<std::byte> into) {
  for (auto rest = into;;) {
    const auto part = rest.first(std::min(rest.size(), copied_at_once));
    const auto got = engine_.read(part);
    rest = rest.subspan(got);
    if (rest.empty() || got < part.size()) return into.size() - rest.size();
    progress();  // software devices deliver while somebody polls
  }
}

result<std::span<const std::byte>> conversation::peek(time_point deadline) {
  RDMAXX_TRY(check_generation(generation_, "reading from a stream"));
  lock held(mutex_);
  if (!wait(held, deadline, [this] { return engine_.can_read(); }, awaited::arrival))
    return errno_error("reading from a stream", ETIMEDOUT);
  const auto here = engine_.readable();
  if (here.empty()) {
    if (const auto state = engine_.check_read(); !state) return failure_of(state.error());
  }
  return here;
}

void conversation::consume(std::size_t bytes) {
  if (is_made_before_fork()) return;
  const lock held(mutex_);
  engine_.consume(bytes);
  advance();
}

result<std::optional<std::size_t>> conversation::write(
    std::span<const std::span<const std::byte>> from, time_point deadline, bool until_all) {
  RDMAXX_TRY(check_generation(generation_, "writing to a stream"));
  if (std::ranges::all_of(from, &std::span<const std::byte>::empty)) return 0;
  lock held(mutex_);
  poll_sends();
  if (engine_.waits_for_credits()) poll_receives();
  if (!engine_.can_write() && !wait(held, deadline, [this] { return engine_.can_write(); })) {
    writer_tries_again_ = true;
    leave_to_stragglers();
    return std::nullopt;
  }
  writer_tries_again_ = false;
  std::size_t count = 0;
  bool is_all = true;
  for (auto piece = from.begin(); piece != from.end() && is_all; ++piece) {
    const auto taken = copy_in(*piece);
    count += taken;
    is_all = taken == piece->size();
  }
  if (options_.gather.count() == 0) engine_.flush();
  advance();
  if (count == 0) {
    if (const auto state = engine_.check_write(); !state) return failure_of(state.error());
  }
  if (is_all || !until_all) leave_to_stragglers();
  return count;
}

// The device sends the first half while the second one is filled.
std::size_t conversation::copy_in(std::span<const std::byte> bytes) {
  const auto half = engine_.frame_capacity() * (options_.send_buffers / 2);
  for (auto rest = bytes;;) {
    const auto part = rest.first(std::min<std::size_t>(rest.size(), half));
    const auto taken = engine_.write(part);
    rest = rest.subspan(taken);
    if (rest.empty() || taken < part.size()) return bytes.size() - rest.size();
    progress();  // also for credits that have come: they are not waited for then
  }
}

result<void> conversation::write_registered(const memory_region& region,
                                            std::span<const std::byte> bytes, time_point deadline) {
  RDMAXX_TRY(check_generation(generation_, "writing to a stream"));
  RDMAXX_TRY(region.try_gather(bytes));
  lock held(mutex_);
  if (region.native()->pd != equipment_.send_memory.native()->pd) {
    return misuse_error("writing to a stream", "the memory is registered with another domain",
                        "register it with the stream's own: native().qp.pd()");
  }
  const auto tag = reinterpret_cast<std::uint64_t>(&region);
  bool in_time = true;
  while (!bytes.empty() && in_time) {
    in_time = wait(held, deadline, [this] { return engine_.can_write_in_place(); });
    if (!in_time) break;
    const auto taken = engine_.write_in_place(bytes, tag);
    advance();
    if (taken == 0) break;  // never again; what has been taken may still be under way
    bytes = bytes.subspan(taken);
  }
  const auto end = engine_.written_position();
  engine_.flush();
  advance();
  if (in_time) {
    in_time = wait(held, deadline, [&] {
      return engine_.released_position() >= end || engine_.failure() || is_down_;
    });
  }
  if (!in_time) {
    engine_.abort();
    cause_ = errno_error("writing to a stream", ETIMEDOUT,
                         "the peer did not take what is sent from memory of the caller");
    tell_of_abort(held);
  }
  if (!in_time || engine_.failure() || is_down_) reclaim_memory(held);
  if (const auto state = engine_.check_write(); !state) return failure_of(state.error());
  return {};
}

void conversation::reclaim_memory(lock& held) {
  if (!connection_.qp()) return;  // an earlier one has had to destroy it
  end_connection();
  (void)connection_.qp().to_error();
  // Requests that were reported as refused may have completed as well.
  const auto has_completed = [this] {
    return static_cast<std::int32_t>(last_completed_ - last_posted_) >= 0;
  };
  if (wait(held, deadline_after(patience_of_flush), has_completed)) return;
  // iWARP may take what is posted when the connection has ended already, and never complete it; a
  // device that is gone completes nothing. What has no queue pair is not read any more.
  is_down_ = true;
  advance();
  (void)connection_.id().take_qp();
}

result<void> conversation::flush(time_point deadline) {
  RDMAXX_TRY(check_generation(generation_, "flushing a stream"));
  lock held(mutex_);
  engine_.flush();
  const auto arrived = [this] {
    return engine_.released_position() == engine_.written_position() || engine_.failure() ||
           is_down_;
  };
  if (!wait(held, deadline, arrived)) return errno_error("flushing a stream", ETIMEDOUT);
  if (const auto& failure = engine_.failure()) return failure_of(*failure);
  // A peer that has stopped reading has not got everything.
  const auto state = engine_.check_write();
  if (!state && state.error().category() == error_category::peer) return failure_of(state.error());
  return {};
}

void conversation::shutdown_write() {
  if (is_made_before_fork()) return;
  const lock held(mutex_);
  engine_.shutdown_write();
  progress();
  leave_to_stragglers();
}

void conversation::shutdown_read() {
  if (is_made_before_fork()) return;
  const lock held(mutex_);
  engine_.shutdown_read();
  progress();
}

result<void> conversation::close(time_point deadline) {
  RDMAXX_TRY(check_generation(generation_, "closing a stream"));
  lock held(mutex_);
  engine_.shutdown_write();
  const auto finished = [this] {
    engine_.consume(engine_.available());
    advance();
    return engine_.wants_disconnect() || engine_.failure();
  };
  const bool in_time = wait(held, deadline, finished);
  if (const auto& failure = engine_.failure(); in_time && failure) return failure_of(*failure);
  if (!in_time) {
    engine_.abort();
    tell_of_abort(held);
    end_connection();
    return errno_error("closing a stream", ETIMEDOUT,
                       "the peer has not ended its side of the stream, which is aborted now",
                       "close both sides, or give it more time; this stream is gone")
        .as(error_category::gone);
  }
  (void)wait(held, deadline, [this] { return is_down_; });
  return {};
}

result<void> conversation::close_reading(time_point deadline) {
  RDMAXX_TRY(check_generation(generation_, "closing a stream"));
  lock held(mutex_);
  const auto ended = [this] {
    engine_.consume(engine_.available());
    advance();
    return engine_.at_end() || engine_.failure();
  };
  if (!wait(held, deadline, ended, awaited::arrival)) {
    return errno_error("closing the read half of a stream", ETIMEDOUT,
                       "the peer has not ended its side of the stream");
  }
  if (const auto state = engine_.check_read(); !state) return failure_of(state.error());
  return {};
}

result<void> conversation::close_writing(time_point deadline) {
  RDMAXX_TRY(check_generation(generation_, "closing a stream"));
  lock held(mutex_);
  engine_.shutdown_write();
  if (!wait(held, deadline, [this] { return engine_.has_sent_fin() || engine_.failure(); })) {
    leave_to_stragglers();
    return errno_error("closing the write half of a stream", ETIMEDOUT,
                       fmt::format("{} bytes have not arrived", engine_.unconfirmed()));
  }
  if (const auto& failure = engine_.failure(); failure && !engine_.has_sent_fin())
    return failure_of(*failure);
  if (const auto lost = engine_.unconfirmed(); lost != 0) {
    user_knows_ = true;
    return error({.operation = "closing the write half of a stream",
                  .code = std::make_error_code(std::errc::broken_pipe),
                  .category = error_category::peer,
                  .problem = fmt::format("the peer has stopped reading {} bytes before", lost)});
  }
  return {};
}

void conversation::tell_of_abort(lock& held) {
  (void)wait(held, deadline_after(patience_of_abort),
             [this] { return engine_.wants_disconnect() || is_down_; });
}

void conversation::abort() {
  if (is_made_before_fork()) return;
  lock held(mutex_);
  engine_.abort();
  tell_of_abort(held);
  end_connection();
}

void conversation::give_up_reading() {
  if (is_made_before_fork()) return;
  {
    const lock held(mutex_);
    log_unread();
  }
  shutdown_read();
}

void conversation::log_unread() const {
  if (engine_.available() == 0) return;
  log(log_level::warning, fmt::format("{} → {}: {} bytes that had arrived were not read",
                                      describe(connection_.local_address()),
                                      describe(connection_.peer_address()), engine_.available()));
}

void conversation::linger() {
  lock held(mutex_);
  log_unread();
  if (!is_down_ && !has_disconnected_) {
    engine_.shutdown_write();
    engine_.shutdown_read();  // a peer that still writes shall not believe that somebody reads it
    (void)wait(held, deadline_after(options_.linger), [this] {
      return (engine_.has_sent_fin() && engine_.in_flight() == 0) ||
             (engine_.failure() && engine_.wants_disconnect()) || is_down_;
    });
    end_connection();
  }
  if (const auto lost = engine_.unconfirmed(); lost != 0 && !user_knows_) {
    log(log_level::warning, fmt::format("{} → {}: {} bytes that were written may not have arrived",
                                        describe(connection_.local_address()),
                                        describe(connection_.peer_address()), lost));
  }
}

stream_protocol::engine_statistics conversation::statistics() {
  if (is_made_before_fork()) return {};
  const lock held(mutex_);
  return engine_.statistics();
}

}  // namespace rdmaxx::inline v0::detail
