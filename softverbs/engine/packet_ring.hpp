// A ring of packets in memory that two processes of one host share: one writes, the other reads.
//
// The writer makes the memory (a sealed memfd, so that nobody can shrink it under the other) and
// hands it over together with an eventfd, the bell. The reader sleeps on the bell only after it has
// said so in the ring; a writer that finds it awake makes no system call at all.
//
// What the reader finds is the work of another process: every length is checked against the ring,
// and a ring that lies is not read any more. A full ring loses packets, as a network does, but
// room() tells the writer beforehand.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include <sys/uio.h>

namespace softverbs::engine {

namespace ring {

struct shared {
  alignas(64) std::atomic<std::uint64_t> head;  ///< bytes ever written; the writer's
  alignas(64) std::atomic<std::uint64_t> tail;  ///< bytes ever read; the reader's
  alignas(64) std::atomic<std::uint32_t> reader_sleeps;
  std::atomic<std::uint32_t> writer_left;
  std::atomic<std::int32_t> reader_process;     ///< 0 until it has mapped the ring
  std::atomic<std::uint64_t> reader_namespace;  ///< in which reader_process is a number
};

inline constexpr std::size_t data_bytes = 512 * 1024;
inline constexpr std::size_t memory_bytes = 4096 + data_bytes;
static_assert(sizeof(shared) <= 4096);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The mapped memory.
class mapping {
 public:
  mapping() = default;
  explicit mapping(int memfd);
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
  /// Null with errno.
  [[nodiscard]] static std::shared_ptr<ring_writer> create();
  ring_writer(const ring_writer&) = delete;
  ring_writer& operator=(const ring_writer&) = delete;
  ~ring_writer();

  [[nodiscard]] int memory_fd() const noexcept { return memfd_; }
  [[nodiscard]] int bell_fd() const noexcept { return bell_; }
  /// The other side has both descriptors: the memory's is not needed any more.
  void handed_over();

  /// Nobody will ever read it: the process that did has ended. A process of another PID namespace
  /// cannot be asked for; it counts as alive.
  [[nodiscard]] bool is_orphaned() const;
  /// Whether that many bytes of packets fit now.
  [[nodiscard]] bool has_room(std::size_t bytes);
  /// False if the packet did not fit and is lost.
  bool write(std::span<const iovec> parts);
  /// After the last packet of a burst.
  void ring_bell();

 private:
  ring_writer(int memfd, int bell, ring::mapping memory)
      : memfd_(memfd), bell_(bell), memory_(std::move(memory)) {}

  int memfd_;
  int bell_;
  ring::mapping memory_;
  std::mutex mutex_;
  std::uint64_t head_ = 0;
};

/// One thread at a time.
class ring_reader {
 public:
  /// Takes the descriptors over. is_good() is false if the memory is not what it should be.
  ring_reader(int memfd, int bell);
  ring_reader(const ring_reader&) = delete;
  ring_reader& operator=(const ring_reader&) = delete;
  ~ring_reader();

  [[nodiscard]] bool is_good() const noexcept { return memory_.is_good() && !lied_; }
  [[nodiscard]] int bell_fd() const noexcept { return bell_; }
  [[nodiscard]] bool has_packets() const noexcept {
    return memory_.control().head.load(std::memory_order_acquire) != tail_;
  }
  /// The writer has gone and everything it wrote has been read.
  [[nodiscard]] bool is_finished() const noexcept {
    return memory_.control().writer_left.load(std::memory_order_acquire) != 0 && !has_packets();
  }

  /// Calls `handle(bytes)` for up to `most` packets and returns how many there were.
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

  /// From here on the writer rings the bell. False if packets are there already: do not sleep.
  [[nodiscard]] bool prepare_to_sleep();
  void awake();

 private:
  [[nodiscard]] bool next(std::span<const std::byte>& packet);
  void release();

  int bell_;
  ring::mapping memory_;
  std::uint64_t tail_ = 0;
  std::uint64_t after_ = 0;
  bool lied_ = false;
};

}  // namespace softverbs::engine
