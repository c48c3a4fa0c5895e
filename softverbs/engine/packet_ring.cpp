#include <engine/packet_ring.hpp>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace softverbs::engine {
namespace {

// In front of each packet; a packet never goes around the end of the ring.
struct record {
  std::uint32_t bytes;
  std::uint32_t reserved;
};
constexpr std::uint32_t skip_to_start = 0xffff'ffff;
constexpr std::uint64_t alignment = sizeof(record);
// What stays free for acknowledgements, which nobody asks room for.
constexpr std::size_t reserve = std::size_t{32} * 1024;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr std::uint64_t record_bytes(std::size_t packet) {
  return sizeof(record) + (packet + alignment - 1) / alignment * alignment;
}

std::uint64_t own_pid_namespace() {
  struct stat file{};
  return ::stat("/proc/self/ns/pid", &file) == 0 ? file.st_ino : 0;
}

}  // namespace

namespace ring {

mapping::mapping(int memfd) {
  void* const memory = ::mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (memory != MAP_FAILED) memory_ = static_cast<std::byte*>(memory);
}

mapping::mapping(mapping&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}

mapping& mapping::operator=(mapping&& other) noexcept {
  std::swap(memory_, other.memory_);
  return *this;
}

mapping::~mapping() {
  if (memory_ != nullptr) ::munmap(memory_, memory_bytes);
}

}  // namespace ring

std::shared_ptr<ring_writer> ring_writer::create() {
  const int memfd = ::memfd_create("softverbs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memfd < 0) return nullptr;
  const int bell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ring::mapping memory;
  if (::ftruncate(memfd, ring::memory_bytes) == 0 && ::fcntl(memfd, F_ADD_SEALS, seals) == 0) {
    memory = ring::mapping(memfd);
  }
  if (bell < 0 || !memory.is_good()) {
    if (bell >= 0) ::close(bell);
    ::close(memfd);
    return nullptr;
  }
  // A reader that has not mapped it yet is asleep.
  memory.control().reader_sleeps = 1;
  return std::shared_ptr<ring_writer>(new ring_writer(memfd, bell, std::move(memory)));
}

ring_writer::~ring_writer() {
  memory_.control().writer_left.store(1, std::memory_order_release);
  ring_bell();
  if (memfd_ >= 0) ::close(memfd_);
  ::close(bell_);
}

void ring_writer::handed_over() { ::close(std::exchange(memfd_, -1)); }

bool ring_writer::is_orphaned() const {
  const auto reader = memory_.control().reader_process.load();
  return reader > 0 && memory_.control().reader_namespace.load() == own_pid_namespace() &&
         ::kill(reader, 0) != 0 && errno == ESRCH;
}

bool ring_writer::has_room(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto used = head_ - memory_.control().tail.load(std::memory_order_acquire);
  return used <= ring::data_bytes && ring::data_bytes - used >= reserve + 2 * record_bytes(bytes);
}

bool ring_writer::write(std::span<const iovec> parts) {
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.iov_len;
  const auto needed = record_bytes(bytes);
  const std::lock_guard lock(mutex_);
  const auto used = head_ - memory_.control().tail.load(std::memory_order_acquire);
  if (used > ring::data_bytes) return false;  // the reader lies
  const auto offset = head_ % ring::data_bytes;
  const auto to_end = ring::data_bytes - offset;
  const auto skipped = needed > to_end ? to_end : 0;
  if (ring::data_bytes - used < skipped + needed) return false;
  if (skipped != 0) {
    const record skip{.bytes = skip_to_start, .reserved = 0};
    std::memcpy(memory_.data() + offset, &skip, sizeof skip);
  }
  auto* into = memory_.data() + (offset + skipped) % ring::data_bytes;
  const record header{.bytes = static_cast<std::uint32_t>(bytes), .reserved = 0};
  std::memcpy(into, &header, sizeof header);
  into += sizeof header;
  for (const auto& part : parts) {
    std::memcpy(into, part.iov_base, part.iov_len);
    into += part.iov_len;
  }
  head_ += skipped + needed;
  memory_.control().head.store(head_, std::memory_order_release);
  return true;
}

void ring_writer::ring_bell() {
  auto& control = memory_.control();
  // Either the reader sees what was written before it sleeps, or we see that it sleeps: both sides
  // write their word first and then read the other's, in one order for all.
  {
    const std::lock_guard lock(mutex_);
    control.head.exchange(head_, std::memory_order_seq_cst);
  }
  if (control.reader_sleeps.load(std::memory_order_seq_cst) == 0) return;
  if (control.reader_sleeps.exchange(0) == 0) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell_, &one, sizeof one);
}

ring_reader::ring_reader(int memfd, int bell) : bell_(bell) {
  struct stat file{};
  const bool right = ::fstat(memfd, &file) == 0 &&
                     file.st_size == static_cast<off_t>(ring::memory_bytes) &&
                     (::fcntl(memfd, F_GET_SEALS) & F_SEAL_SHRINK) != 0;
  if (right) memory_ = ring::mapping(memfd);
  if (memory_.is_good()) {
    memory_.control().reader_namespace = own_pid_namespace();
    memory_.control().reader_process = ::getpid();
  }
  ::close(memfd);
}

ring_reader::~ring_reader() { ::close(bell_); }

bool ring_reader::next(std::span<const std::byte>& packet) {
  const auto head = memory_.control().head.load(std::memory_order_acquire);
  for (;;) {
    const auto available = head - tail_;
    if (available == 0 || lied_) return false;
    const auto offset = tail_ % ring::data_bytes;
    const auto to_end = ring::data_bytes - offset;
    record header{};
    if (available > ring::data_bytes || available < sizeof header || to_end < sizeof header) break;
    std::memcpy(&header, memory_.data() + offset, sizeof header);
    if (header.bytes == skip_to_start) {
      if (available < to_end) break;
      tail_ += to_end;
      continue;
    }
    const auto needed = record_bytes(header.bytes);
    if (needed > available || needed > to_end) break;
    packet = {memory_.data() + offset + sizeof header, header.bytes};
    after_ = tail_ + needed;
    return true;
  }
  lied_ = true;
  return false;
}

void ring_reader::release() {
  tail_ = after_;
  memory_.control().tail.store(tail_, std::memory_order_release);
}

bool ring_reader::prepare_to_sleep() {
  auto& control = memory_.control();
  control.reader_sleeps.exchange(1, std::memory_order_seq_cst);
  if (control.head.load(std::memory_order_seq_cst) == tail_ || lied_) return true;
  control.reader_sleeps.store(0, std::memory_order_relaxed);
  return false;
}

void ring_reader::awake() {
  memory_.control().reader_sleeps.store(0, std::memory_order_relaxed);
  std::uint64_t rings = 0;
  [[maybe_unused]] const auto got = ::read(bell_, &rings, sizeof rings);
}

}  // namespace softverbs::engine
