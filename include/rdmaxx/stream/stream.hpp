#pragma once

// stream: bytes between two programs, in order, both ways, as over TCP.
//
//   auto s = stream::connect("server.example.org:7471").value();
//   s.write_all("ping").value();
//   std::array<char, 4> answer;
//   s.read_exactly(answer).value();
//   s.close().value();
//
// docs/stream-protocol.md describes what goes over the wire. The peer is a stream from a listener,
// see stream/stream_listener.hpp.
//
// The end: close() ends the stream in order: everything written arrives, and what the peer still
// sends is read and dropped until it ends its side, too. shutdown(direction::write) ends one
// direction: the peer reads the end and can keep writing. abort() gives up at once: the peer's
// calls fail with ECONNRESET. A connection that is lost without any of these fails with
// ECONNABORTED, so the end of a stream (0 bytes read) always means that the peer ended it on
// purpose.
//
// Lifetime: move-only. The destructor of a stream that was not closed waits up to
// stream_options::linger until everything written has arrived, then disconnects. It logs how many
// bytes were unread or may not have arrived. Threads: one at a time, except for abort(), which any
// thread may call; into_split() returns two halves for two threads. Timeouts apply to whole calls:
// read() and write() that time out fail with ETIMEDOUT and lose nothing; the error of
// read_exactly() and write_all() says how many bytes were transferred. A moved-from stream can only
// be destroyed or assigned to.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <rdmaxx/cm/connection.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/precondition.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/protocol_engine.hpp>
#include <rdmaxx/stream/sendable_elements.hpp>
#include <rdmaxx/stream/stream_options.hpp>
#include <rdmaxx/verbs/memory_region.hpp>

namespace RDMAXX_NAMESPACE {

namespace detail {
class stream_connection;
}  // namespace detail

enum class direction : std::uint8_t { read, write, both };
[[nodiscard]] std::string_view describe(direction which) noexcept;

using stream_statistics = stream_protocol::engine_statistics;

/// The objects behind a stream, for code that needs more than it offers.
struct stream_native {
  const cm_id& id;
  const queue_pair& qp;  ///< empty after a zero-copy write had to destroy it
};

/// Receiving, for stream and read_half alike.
class stream_reader {
 public:
  stream_reader(const stream_reader&) = delete;
  stream_reader& operator=(const stream_reader&) = delete;

  /// At least one byte, or 0 at the end of the stream.
  [[nodiscard]] result<std::size_t> read(std::span<std::byte> into) {
    return read(std::span(&into, 1));
  }
  /// The same into several buffers, one after the other.
  [[nodiscard]] result<std::size_t> read(std::span<const std::span<std::byte>> into);
  /// What has already arrived; nothing if it would have to wait.
  [[nodiscard]] result<std::optional<std::size_t>> try_read(std::span<std::byte> into);
  /// Fills all of it; if the stream ends before that, the error is ENODATA.
  [[nodiscard]] result<void> read_exactly(std::span<std::byte> into) {
    return read_exactly(std::span(&into, 1));
  }
  [[nodiscard]] result<void> read_exactly(std::span<const std::span<std::byte>> into);
  /// Fills a string, vector, array or span of the current size with the bytes of its elements, as
  /// the peer sent them.
  template <detail::sendable_elements Range>
    requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
  [[nodiscard]] result<void> read_exactly(Range&& into) {  // NOLINT(*-std-forward)
    return read_exactly(std::span<std::byte>(std::as_writable_bytes(std::span(into))));
  }

  /// Received bytes in place, without a copy; empty at the end. Valid until the next call that
  /// reads.
  [[nodiscard]] result<std::span<const std::byte>> peek();
  /// Marks the first `bytes` as read, at most as many as there are.
  void consume(std::size_t bytes);

  /// The timeout of each call; forever means no limit.
  void set_read_timeout(std::optional<std::chrono::milliseconds> timeout) noexcept {
    read_timeout_ = timeout;
  }

 protected:
  explicit stream_reader(std::shared_ptr<detail::stream_connection> shared) noexcept;
  stream_reader(stream_reader&&) noexcept = default;
  stream_reader& operator=(stream_reader&&) noexcept = default;
  ~stream_reader() = default;

  std::shared_ptr<detail::stream_connection> shared_;

 private:
  std::optional<std::chrono::milliseconds> read_timeout_;
};

/// Sending, for stream and write_half alike.
class stream_writer {
 public:
  stream_writer(const stream_writer&) = delete;
  stream_writer& operator=(const stream_writer&) = delete;

  /// Accepts at least one byte and returns how many. Accepted bytes have not necessarily arrived:
  /// see flush().
  [[nodiscard]] result<std::size_t> write(std::span<const std::byte> from) {
    return write(std::span(&from, 1));
  }
  /// The same from several buffers, one after the other.
  [[nodiscard]] result<std::size_t> write(std::span<const std::span<const std::byte>> from);
  [[nodiscard]] result<std::size_t> write(std::string_view text) {
    return write(std::as_bytes(std::span(text)));
  }
  /// Accepts what it can without waiting; returns nothing if it would have to wait.
  [[nodiscard]] result<std::optional<std::size_t>> try_write(std::span<const std::byte> from);
  [[nodiscard]] result<void> write_all(std::span<const std::byte> from) {
    return write_all(std::span(&from, 1));
  }
  [[nodiscard]] result<void> write_all(std::span<const std::span<const std::byte>> from);
  /// The characters of a text, without a terminating zero.
  [[nodiscard]] result<void> write_all(std::string_view text) {
    return write_all(std::as_bytes(std::span(text)));
  }
  /// The bytes of the elements of a string, vector, array or span, as they are in memory: the peer
  /// must have the same layout, or the program converts.
  template <detail::sendable_elements Range>
  [[nodiscard]] result<void> write_all(const Range& from) {
    return write_all(std::span<const std::byte>(std::as_bytes(std::span(from))));
  }
  /// Sends all of `from`, which lies in the region, without a copy, and returns when the device has
  /// sent it. The region must belong to the stream's own domain: native().qp.pd(). A timeout aborts
  /// the stream, because the device may still be reading.
  [[nodiscard]] result<void> write_all(const memory_region& region,
                                       std::span<const std::byte> from);

  /// Returns when everything written has arrived at the peer's device; on iWARP, when it has left
  /// this one.
  [[nodiscard]] result<void> flush();

  void set_write_timeout(std::optional<std::chrono::milliseconds> timeout) noexcept {
    write_timeout_ = timeout;
  }

 protected:
  explicit stream_writer(std::shared_ptr<detail::stream_connection> shared) noexcept;
  stream_writer(stream_writer&&) noexcept = default;
  stream_writer& operator=(stream_writer&&) noexcept = default;
  ~stream_writer() = default;

  std::shared_ptr<detail::stream_connection> shared_;

 private:
  std::optional<std::chrono::milliseconds> write_timeout_;
};

/// The halves of a stream, for two threads; the connection ends with the last one. Each can be
/// closed in order, or both joined again. Destroying a write_half shuts down writing, destroying a
/// read_half reading.
class read_half;
class write_half;

class stream : public stream_reader, public stream_writer {
 public:
  /// Does everything: looks up the name and the route, connects, and exchanges greetings.
  [[nodiscard]] static result<stream> connect(std::string_view peer,
                                              const stream_options& options = {});
  [[nodiscard]] static result<stream> connect(const socket_address& peer,
                                              const stream_options& options = {});

  /// write: the peer reads the end. read: the peer's writes fail with EPIPE. Does not wait.
  void shutdown(direction which);
  /// Ends both directions in order. An error if the peer does not end its side in time (the stream
  /// is then aborted), or if the stream has failed.
  [[nodiscard]] result<void> close(
      std::chrono::milliseconds timeout = stream_options::default_close_timeout);
  /// Any thread.
  void abort();

  [[nodiscard]] socket_address local_address() const;
  [[nodiscard]] socket_address peer_address() const;
  [[nodiscard]] stream_statistics statistics() const;
  [[nodiscard]] stream_native native() const;
  /// Readable when something may have happened since a try_read() or try_write() that returned
  /// nothing, whatever else was called meanwhile.
  [[nodiscard]] result<int> fd() const;

  [[nodiscard]] std::pair<read_half, write_half> into_split() &&;
  /// Joins the halves of one stream again. Halves of different streams are refused (misuse) and
  /// stay unchanged.
  [[nodiscard]] static result<stream> join(read_half&& reading, write_half&& writing);

 private:
  friend class stream_listener;
  explicit stream(const std::shared_ptr<detail::stream_connection>& shared) noexcept
      : stream_reader(shared), stream_writer(shared) {}
  stream(stream_reader&& reading, stream_writer&& writing) noexcept
      : stream_reader(std::move(reading)), stream_writer(std::move(writing)) {}
  friend std::string describe(const stream& connected);
  [[nodiscard]] detail::stream_connection& shared(
      const detail::call_site& call = detail::call_site::current()) const noexcept;
};
/// "stream 10.0.0.1:33000 → 10.0.0.7:7471, queue pair 0x11 rts"
[[nodiscard]] std::string describe(const stream& connected);

class read_half : public stream_reader {
 public:
  read_half(read_half&&) noexcept = default;
  read_half& operator=(read_half&& other) noexcept;
  read_half(const read_half&) = delete;
  read_half& operator=(const read_half&) = delete;
  ~read_half() { end(); }

  /// Reads and drops what the peer still sends, until it ends its side; ETIMEDOUT if it does not do
  /// so in time, after which reading can continue.
  [[nodiscard]] result<void> close(
      std::chrono::milliseconds timeout = stream_options::default_close_timeout);
  /// Any thread; ends both halves.
  void abort();

 private:
  friend class stream;
  friend std::string describe(const read_half& half);
  explicit read_half(stream_reader&& of) noexcept : stream_reader(std::move(of)) {}
  void end() noexcept;
};

class write_half : public stream_writer {
 public:
  write_half(write_half&&) noexcept = default;
  write_half& operator=(write_half&& other) noexcept;
  write_half(const write_half&) = delete;
  write_half& operator=(const write_half&) = delete;
  ~write_half() { end(); }

  /// The peer reads the end. Does not wait.
  void shutdown();
  /// The same, but returns when the end and everything before it has arrived at the peer's device;
  /// on iWARP, when it has left this one; ETIMEDOUT if that takes longer, and it is then still in
  /// flight. Closing both halves ends the stream like stream::close().
  [[nodiscard]] result<void> close(
      std::chrono::milliseconds timeout = stream_options::default_close_timeout);
  /// Any thread; ends both halves.
  void abort();

 private:
  friend class stream;
  friend std::string describe(const write_half& half);
  explicit write_half(stream_writer&& of) noexcept : stream_writer(std::move(of)) {}
  void end() noexcept;
};

[[nodiscard]] std::string describe(const read_half& half);
[[nodiscard]] std::string describe(const write_half& half);

}  // namespace RDMAXX_NAMESPACE
