#include <rdmaxx/stream/stream.hpp>

#include <cerrno>
#include <random>
#include <vector>

#include <fmt/format.h>

#include <rdmaxx/cm/connect.hpp>

#include "stream/conversation_handle.hpp"
#include "stream/own_greeting.hpp"

namespace rdmaxx::inline v0 {

namespace {

using detail::conversation;
using stream_protocol::greeting;

error timed_out(std::string_view operation) {
  return errno_error(operation, ETIMEDOUT, "the peer did nothing in time",
                     "nothing is lost: call again, or set another timeout");
}

/// Without the first `bytes`.
template <class Byte>
void drop_front(std::vector<std::span<Byte>>& pieces, std::size_t bytes) {
  auto first = pieces.begin();
  while (first != pieces.end() && bytes >= first->size()) bytes -= (first++)->size();
  pieces.erase(pieces.begin(), first);
  if (!pieces.empty()) pieces.front() = pieces.front().subspan(bytes);
}

/// What a refusal means: the peer's greeting may say more than its reason.
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

stream_reader::stream_reader(std::shared_ptr<detail::conversation_handle> shared) noexcept
    : shared_(std::move(shared)), read_timeout_((*shared_)->options().read_timeout) {}

result<std::size_t> stream_reader::read(std::span<const std::span<std::byte>> into) {
  RDMAXX_TRY(const auto count, (*shared_)->read(into, read_timeout_));
  if (!count) return timed_out("reading from a stream");
  return *count;
}

result<std::optional<std::size_t>> stream_reader::try_read(std::span<std::byte> into) {
  return (*shared_)->read(std::span(&into, 1), std::chrono::milliseconds(0));
}

result<void> stream_reader::read_exactly(std::span<std::byte> into) {
  const auto wanted = into.size();
  while (!into.empty()) {
    RDMAXX_TRY(const auto count, read(into));
    if (count == 0) {
      return errno_error(
          "reading from a stream", ENODATA,
          fmt::format("the stream ended after {} of {} bytes", wanted - into.size(), wanted));
    }
    into = into.subspan(count);
  }
  return {};
}

result<void> stream_reader::read_exactly(std::span<const std::span<std::byte>> into) {
  std::vector pieces(into.begin(), into.end());
  drop_front(pieces, 0);
  while (!pieces.empty()) {
    RDMAXX_TRY(const auto count, read(pieces));
    if (count == 0) return errno_error("reading from a stream", ENODATA, "the stream ended before");
    drop_front(pieces, count);
  }
  return {};
}

result<std::span<const std::byte>> stream_reader::peek() { return (*shared_)->peek(read_timeout_); }

void stream_reader::consume(std::size_t bytes) { (*shared_)->consume(bytes); }

// --- writing -----------------------------------------------------------------------------------

stream_writer::stream_writer(std::shared_ptr<detail::conversation_handle> shared) noexcept
    : shared_(std::move(shared)), write_timeout_((*shared_)->options().write_timeout) {}

result<std::size_t> stream_writer::write(std::span<const std::span<const std::byte>> from) {
  RDMAXX_TRY(const auto count, (*shared_)->write(from, write_timeout_));
  if (!count) return timed_out("writing to a stream");
  return *count;
}

result<std::optional<std::size_t>> stream_writer::try_write(std::span<const std::byte> from) {
  return (*shared_)->write(std::span(&from, 1), std::chrono::milliseconds(0));
}

result<void> stream_writer::write_all(std::span<const std::byte> from) {
  while (!from.empty()) {
    RDMAXX_TRY(const auto count, write(from));
    from = from.subspan(count);
  }
  return {};
}

result<void> stream_writer::write_all(std::span<const std::span<const std::byte>> from) {
  std::vector pieces(from.begin(), from.end());
  drop_front(pieces, 0);
  while (!pieces.empty()) {
    RDMAXX_TRY(const auto count, write(pieces));
    drop_front(pieces, count);
  }
  return {};
}

result<void> stream_writer::write_all(const memory_region& region,
                                      std::span<const std::byte> from) {
  return (*shared_)->write_registered(region, from, write_timeout_);
}

result<void> stream_writer::flush() { return (*shared_)->flush(write_timeout_); }

// --- the whole ---------------------------------------------------------------------------------

detail::conversation& stream::shared() const noexcept { return **stream_reader::shared_; }

result<stream> stream::connect(std::string_view peer, const stream_options& options) {
  RDMAXX_TRY(const auto addresses, socket_address::lookup(peer));
  auto made = connect(addresses.front(), options);
  for (std::size_t next = 1; next < addresses.size() && !made; ++next)
    made = connect(addresses[next], options);
  return made;
}

result<stream> stream::connect(const socket_address& peer, const stream_options& options) {
  const auto deadline = deadline_after(options.connect_timeout);
  RDMAXX_TRY(auto id, cm::resolve(peer, {.source = options.source,
                                         .id = options.id,
                                         .timeout = options.connect_timeout}));
  RDMAXX_TRY(auto equipment, detail::stream_equipment::for_id(id, options));
  const auto own = detail::own_greeting(options);
  const auto hello = own.to_bytes();
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  auto connected = cm::connect(std::move(id), {.private_data = hello},
                               std::max(left, std::chrono::milliseconds(1)));
  if (!connected) return explained(connected.error(), own);
  RDMAXX_TRY(const auto theirs, greeting::from_bytes(connected->peer_data()));
  RDMAXX_TRY(const auto terms, negotiate(own, theirs));
  RDMAXX_TRY(auto made,
             conversation::create(*std::move(connected), std::move(equipment), terms, options));
  return stream(std::make_shared<detail::conversation_handle>(std::move(made)));
}

void stream::shutdown(direction which) {
  if (which != direction::read) shared().shutdown_write();
  if (which != direction::write) shared().shutdown_read();
}

result<void> stream::close(std::chrono::milliseconds deadline) { return shared().close(deadline); }

void stream::abort() { shared().abort(); }

socket_address stream::local_addr() const { return shared().connection().local_address(); }

socket_address stream::peer_addr() const { return shared().connection().peer_address(); }

stream_statistics stream::statistics() const { return shared().statistics(); }

stream_native stream::native() const {
  const auto& connected = shared().connection();
  return {.id = connected.id(), .qp = connected.qp(), .fd = shared().channel().fd()};
}

std::pair<read_half, write_half> stream::into_split() && {
  return {read_half(std::move(stream_reader::shared_)),
          write_half(std::move(stream_writer::shared_))};
}

std::string describe(const stream& connected) {
  return fmt::format("stream {} → {}", describe(connected.local_addr()),
                     describe(connected.peer_addr()));
}

read_half::~read_half() {
  if (shared_ != nullptr) (*shared_)->shutdown_read();
}

void read_half::abort() { (*shared_)->abort(); }

write_half::~write_half() {
  if (shared_ != nullptr) (*shared_)->shutdown_write();
}

void write_half::shutdown() { (*shared_)->shutdown_write(); }

void write_half::abort() { (*shared_)->abort(); }

}  // namespace rdmaxx::inline v0
