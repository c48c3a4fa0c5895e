#include <rdmaxx/stream/stream.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <rdmaxx/cm/connect.hpp>

#include "cm/address_fallback.hpp"
#include "cm/missing_port.hpp"
#include "cm/time_until.hpp"
#include "stream/own_greeting.hpp"
#include "stream/stream_connection.hpp"
#include "stream/stream_endpoint.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

using detail::stream_connection;
using detail::wait_end;
using stream_protocol::greeting;

using time_point = stream_connection::time_point;

using timeout_type = std::optional<std::chrono::milliseconds>;

error read_timed_out(const stream_connection& shared, timeout_type timeout, std::string hint) {
  return timed_out_error(
      "reading from a stream", timeout.value_or(std::chrono::milliseconds::zero()),
      fmt::format("bytes from {}", describe(shared.connection().peer_address())), std::move(hint));
}

error write_timed_out(const stream_connection& shared, timeout_type timeout, std::string hint) {
  return timed_out_error("writing to a stream", timeout.value_or(std::chrono::milliseconds::zero()),
                         fmt::format("{} to read", describe(shared.connection().peer_address())),
                         std::move(hint));
}

constexpr const char* call_again = "nothing is lost: call again, or set another timeout";

/// Why a call that must transfer everything has transferred only a part.
error incomplete(const error& why, std::size_t done, std::size_t wanted) {
  return why.within(fmt::format("after {} of {} bytes", done, wanted));
}

constexpr const char* go_on = "nothing is lost: continue after those bytes, or set another timeout";

template <class Byte>
std::size_t total(std::span<const std::span<Byte>> pieces) {
  std::size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

/// Without the first `bytes`.
template <class Byte>
void drop_front(std::vector<std::span<Byte>>& pieces, std::size_t bytes) {
  auto first = pieces.begin();
  while (first != pieces.end() && bytes >= first->size()) bytes -= (first++)->size();
  pieces.erase(pieces.begin(), first);
  if (!pieces.empty()) pieces.front() = pieces.front().subspan(bytes);
}

/// The connection of a stream or a half; a moved-from one has none.
detail::stream_connection& live(
    const std::shared_ptr<detail::stream_connection>& shared,
    const detail::call_site& call = detail::call_site::current()) noexcept {
  detail::expect(shared != nullptr, detail::empty_handle, detail::use_the_other, call);
  return *shared;
}

/// "stream 10.0.0.1:33000 → 10.0.0.7:7471, queue pair 0x11 rts"
std::string text_of(std::string_view kind,
                    const std::shared_ptr<detail::stream_connection>& shared) {
  if (shared == nullptr) return fmt::format("{} (empty)", kind);
  const auto& connected = shared->connection();
  auto text = fmt::format("{} {} → {}", kind, describe(connected.local_address()),
                          describe(connected.peer_address()));
  if (const auto& qp = connected.qp()) {
    const auto state = qp.state();
    text += fmt::format(", queue pair {:#x} {}", qp.number().value(),
                        state ? describe(*state) : "in an unknown state");
  }
  return text;
}

/// Explains a rejection: the peer's greeting may say more than its reason.
error explained(const error& refusal, const greeting& own) {
  const auto peer = greeting::from_bytes(refusal.peer_data());
  if (!peer) return refusal;
  const auto terms = negotiate(own, *peer);
  return terms ? refusal : terms.error();
}

}  // namespace

std::string_view describe(direction which) noexcept {
  switch (which) {
    case direction::read:
      return "read";
    case direction::write:
      return "write";
    case direction::both:
      return "both";
  }
  return "unknown direction";
}

// --- reading -----------------------------------------------------------------------------------

stream_reader::stream_reader(std::shared_ptr<detail::stream_connection> shared) noexcept
    : shared_(std::move(shared)), read_timeout_(live(shared_).options().read_timeout) {}

result<std::size_t> stream_reader::read(std::span<const std::span<std::byte>> into) {
  RDMAXX_TRY(const auto count, live(shared_).read(into, wait_end(read_timeout_)));
  if (!count) return read_timed_out(*shared_, read_timeout_, call_again);
  return *count;
}

result<std::optional<std::size_t>> stream_reader::try_read(std::span<std::byte> into) {
  return live(shared_).read(std::span(&into, 1), time_point::min());
}

result<void> stream_reader::read_exactly(std::span<const std::span<std::byte>> into) {
  const auto deadline = wait_end(read_timeout_);
  const auto wanted = total(into);
  std::vector pieces(into.begin(), into.end());
  for (std::size_t done = 0; done < wanted;) {
    const auto outcome = live(shared_).read(pieces, deadline);
    if (!outcome) return incomplete(outcome.error(), done, wanted);
    const auto& count = *outcome;
    if (!count) return incomplete(read_timed_out(*shared_, read_timeout_, go_on), done, wanted);
    if (*count == 0) {
      return errno_error("reading from a stream", ENODATA,
                         fmt::format("the stream ended after {} of {} bytes", done, wanted));
    }
    done += *count;
    drop_front(pieces, *count);
  }
  return {};
}

result<std::span<const std::byte>> stream_reader::peek() {
  return live(shared_).peek(read_timeout_);
}

void stream_reader::consume(std::size_t bytes) { live(shared_).consume(bytes); }

// --- writing -----------------------------------------------------------------------------------

stream_writer::stream_writer(std::shared_ptr<detail::stream_connection> shared) noexcept
    : shared_(std::move(shared)), write_timeout_(live(shared_).options().write_timeout) {}

result<std::size_t> stream_writer::write(std::span<const std::span<const std::byte>> from) {
  RDMAXX_TRY(const auto count, live(shared_).write(from, wait_end(write_timeout_), false));
  if (!count) return write_timed_out(*shared_, write_timeout_, call_again);
  return *count;
}

result<std::optional<std::size_t>> stream_writer::try_write(std::span<const std::byte> from) {
  return live(shared_).write(std::span(&from, 1), time_point::min(), false);
}

result<void> stream_writer::write_all(std::span<const std::span<const std::byte>> from) {
  const auto deadline = wait_end(write_timeout_);
  const auto wanted = total(from);
  std::vector pieces(from.begin(), from.end());
  for (std::size_t done = 0; done < wanted;) {
    const auto outcome = live(shared_).write(pieces, deadline, true);
    if (!outcome) return incomplete(outcome.error(), done, wanted);
    const auto& count = *outcome;
    if (!count) return incomplete(write_timed_out(*shared_, write_timeout_, go_on), done, wanted);
    done += *count;
    drop_front(pieces, *count);
  }
  return {};
}

result<void> stream_writer::write_all(const memory_region& region,
                                      std::span<const std::byte> from) {
  return live(shared_).write_registered(region, from, write_timeout_);
}

result<void> stream_writer::flush() { return live(shared_).flush(write_timeout_); }

// --- the whole ---------------------------------------------------------------------------------

detail::stream_connection& stream::shared(const detail::call_site& call) const noexcept {
  return live(stream_reader::shared_, call);
}

result<stream> stream::connect(std::string_view peer, const stream_options& options) {
  return detail::with_address_fallback(
      peer, options, &stream_options::connect_timeout,
      [](const socket_address& address, const stream_options& rest) {
        return connect(address, rest);
      });
}

result<stream> stream::connect(const socket_address& peer, const stream_options& options) {
  RDMAXX_TRY(options.check());
  if (peer.port() == 0) return detail::missing_port_error(peer);
  const auto deadline = deadline_after(options.connect_timeout);
  const auto here = [&](const error& why) {
    return why.within(fmt::format("connecting to {}", describe(peer)));
  };
  RDMAXX_TRY(auto id, cm::resolve(peer, {.source = options.source,
                                         .id = options.id,
                                         .timeout = options.connect_timeout}));
  auto endpoint = detail::stream_endpoint::for_id(id, options);
  if (!endpoint) return here(endpoint.error());
  auto own = detail::own_greeting(options);
  own.window = endpoint->window();
  const auto hello = own.to_bytes();
  auto connected =
      cm::connect(std::move(id), {.private_data = hello}, detail::time_until(deadline));
  if (!connected) return explained(connected.error(), own);
  const auto theirs = greeting::from_bytes(connected->peer_data());
  if (!theirs) return here(theirs.error());
  const auto terms = negotiate(own, *theirs);
  if (!terms) return here(terms.error());
  RDMAXX_TRY(auto made,
             stream_connection::create(std::move(*endpoint).connected(*std::move(connected)),
                                       *terms, options));
  return stream(made);
}

void stream::shutdown(direction which) {
  if (which != direction::read) shared().shutdown_write();
  if (which != direction::write) shared().shutdown_read();
}

result<void> stream::close(std::chrono::milliseconds timeout) { return shared().close(timeout); }

void stream::abort() { shared().abort(); }

socket_address stream::local_address() const { return shared().connection().local_address(); }

socket_address stream::peer_address() const { return shared().connection().peer_address(); }

stream_statistics stream::statistics() const { return shared().statistics(); }

stream_native stream::native() const {
  const auto& connected = shared().connection();
  return {.id = connected.id(), .qp = connected.qp()};
}

result<int> stream::fd() const { return shared().fd(); }

std::pair<read_half, write_half> stream::into_split() && {
  return {read_half(static_cast<stream_reader&&>(*this)),
          write_half(static_cast<stream_writer&&>(*this))};
}

result<stream> stream::join(read_half&& reading, write_half&& writing) {
  const auto& one = reading.shared_;
  if (one == nullptr || one != writing.shared_) {
    return misuse_error("stream::join", "the halves belong to different streams",
                        "join the two halves that into_split() returned");
  }
  return stream(std::move(reading), std::move(writing));
}

std::string describe(const stream& connected) {
  return text_of("stream", connected.stream_reader::shared_);
}

std::string describe(const read_half& half) { return text_of("read_half", half.shared_); }

std::string describe(const write_half& half) { return text_of("write_half", half.shared_); }

read_half& read_half::operator=(read_half&& other) noexcept {
  if (this != &other) {
    end();
    stream_reader::operator=(std::move(other));
  }
  return *this;
}

void read_half::end() noexcept {
  if (shared_ != nullptr) live(shared_).give_up_reading();
}

result<void> read_half::close(std::chrono::milliseconds timeout) {
  return live(shared_).close_reading(timeout);
}

void read_half::abort() { live(shared_).abort(); }

write_half& write_half::operator=(write_half&& other) noexcept {
  if (this != &other) {
    end();
    stream_writer::operator=(std::move(other));
  }
  return *this;
}

void write_half::end() noexcept {
  if (shared_ != nullptr) live(shared_).shutdown_write();
}

void write_half::shutdown() { live(shared_).shutdown_write(); }

result<void> write_half::close(std::chrono::milliseconds timeout) {
  return live(shared_).close_writing(timeout);
}

void write_half::abort() { live(shared_).abort(); }

}  // namespace RDMAXX_NAMESPACE
