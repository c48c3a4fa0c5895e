// A ring of packets in memory that two processes of one host share: one writes, the other reads.
//
// The writer makes the memory (a sealed memfd, so that nobody can change its size under the other)
// and offers it over a connection to the reader, see host_protocol.hpp. The connection stays: a
// byte in it wakes the reader, which sleeps only after it has said so in the ring (a writer that
// finds it awake makes no system call at all), and its end tells either side that the other has
// closed the ring, refused it or died. Nobody ever reads from a descriptor that another has made.
//
// What the reader finds is the work of another process: every length is checked against the ring,
// and a malformed ring is not read any more. A full ring loses packets, as a network does, but
// has_room() tells the writer beforehand.
//
// Owners: outgoing_rings and the routes share a writer; incoming_rings owns the readers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include <base/lock_order.hpp>
#include <engine/host_protocol.hpp>
#include <engine/private_descriptor.hpp>
#include <sys/uio.h>

namespace softverbs::engine {

namespace ring {

struct shared {
  alignas(64) std::atomic<std::uint64_t> head;  ///< bytes ever written; the writer's
  alignas(64) std::atomic<std::uint64_t> tail;  ///< bytes ever read; the reader's
  alignas(64) std::atomic<std::uint32_t> reader_sleeps;
};

inline constexpr std::size_t data_bytes = 512 * 1024;
inline constexpr std::size_t memory_bytes = 4096 + data_bytes;
static_assert(sizeof(shared) <= 4096);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The mapped memory.
class mapping {
 public:
  mapping() = default;
  /// Of a memfd that this process has made.
  explicit mapping(int memfd);
  /// Of one that came from another process: nothing, unless it is a memfd of the right size and
  /// with the right seals. No other kind of file is safe to touch.
  [[nodiscard]] static mapping of_foreign(int memfd);
  mapping(mapping&& other) noexcept;
  mapping& operator=(mapping&& other) noexcept;
  ~mapping();

  [[nodiscard]] bool is_good() const noexcept { return memory_ != nullptr; }
  [[nodiscard]] shared& control() const noexcept { return *reinterpret_cast<shared*>(memory_); }
  [[nodiscard]] std::byte* data() const noexcept { return memory_ + 4096; }

 private:
  std::byte* memory_ = nullptr;
};

}  // namespace ring

/// Any thread may write; the lock is a leaf.
class ring_writer {
 public:
  /// Makes a ring and offers it. Never waits. Null with errno: ECONNREFUSED if nobody listens
  /// there, EACCES if the listener's user is not trusted, EAGAIN if it has too much to do.
  [[nodiscard]] static std::shared_ptr<ring_writer> offer(
      const abstract_name& to, const host_protocol::ring_offer& description);
  ring_writer(const ring_writer&) = delete;
  ring_writer& operator=(const ring_writer&) = delete;

  [[nodiscard]] int connection() const noexcept { return connection_.get(); }

  /// Nobody will ever read it: the other side has refused it, closed it or died.
  [[nodiscard]] bool is_closed() const noexcept { return closed_.load(std::memory_order_relaxed); }
  /// Asks the kernel whether the connection has ended.
  void look_at_connection();

  /// Whether that many bytes of packets fit now.
  [[nodiscard]] bool has_room(std::size_t bytes);
  [[nodiscard]] bool is_empty();
  /// False if the packet did not fit and is lost.
  bool write(std::span<const iovec> parts);
  /// After the last packet of a burst.
  void ring_doorbell();
  /// The memory of packets that have been read goes back to the kernel, if none is unread.
  void release_memory();

 private:
  ring_writer(private_descriptor connection, ring::mapping memory)
      : connection_(std::move(connection)), memory_(std::move(memory)) {}

  private_descriptor connection_;
  ring::mapping memory_;
  std::atomic<bool> closed_ = false;
  ranked_mutex<lock_rank::ring_writer> mutex_;
  std::uint64_t head_ = 0;
  std::uint64_t released_at_ = 0;  ///< `head_` when the memory was given back last
};

/// One thread at a time.
class ring_reader {
 public:
  ring_reader(private_descriptor connection, ring::mapping memory)
      : connection_(std::move(connection)), memory_(std::move(memory)) {}
  ring_reader(const ring_reader&) = delete;
  ring_reader& operator=(const ring_reader&) = delete;

  [[nodiscard]] int connection() const noexcept { return connection_.get(); }
  [[nodiscard]] bool has_packets() const noexcept {
    return memory_.control().head.load(std::memory_order_acquire) != tail_;
  }
  /// It is malformed, or its writer has ended and everything it wrote has been read.
  [[nodiscard]] bool is_finished() const noexcept {
    return malformed_ || (writer_gone_ && !has_packets());
  }
  /// The connection has ended.
  void writer_has_gone() noexcept { writer_gone_ = true; }

  /// Calls `handle(bytes)` for up to `most` packets and returns how many there were. The writer may
  /// change the bytes while they are looked at.
  template <class Handle>
  std::size_t read(std::size_t most, Handle handle) {
    std::size_t count = 0;
    std::span<const std::byte> packet;
    while (count < most && next(packet)) {
      handle(packet);
      release();
      ++count;
    }
    return count;
  }

  /// From here on the writer rings the doorbell. False if packets are there already: do not sleep.
  [[nodiscard]] bool prepare_to_sleep();
  /// Answers the doorbell.
  void awake();

 private:
  [[nodiscard]] bool next(std::span<const std::byte>& packet);
  void release();

  private_descriptor connection_;
  ring::mapping memory_;
  std::uint64_t tail_ = 0;
  std::uint64_t after_ = 0;
  bool malformed_ = false;
  bool writer_gone_ = false;
};

}  // namespace softverbs::engine
