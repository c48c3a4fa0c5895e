#include <engine/packet_ring.hpp>

#include <cerrno>
#include <cstring>
#include <utility>

#include <base/descriptor.hpp>
#include <engine/passed_descriptors.hpp>
#include <engine/sealed_memory.hpp>
#include <net/credentials.hpp>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
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
// Doorbells that are taken at once: a writer may not keep the reader from its other work.
constexpr int doorbells_per_turn = 16;

constexpr std::uint64_t record_bytes(std::size_t packet) {
  return sizeof(record) + (packet + alignment - 1) / alignment * alignment;
}

/// A connection to somebody who may be trusted; none with errno.
descriptor connect_to(const abstract_name& listener) {
  descriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::connect(fd.get(), listener.get(), listener.bytes) != 0) return {};
  const auto peer = net::credentials_of_peer(fd.get());
  if (!peer || !net::are_trusted(*peer)) {
    errno = EACCES;
    return {};
  }
  return fd;
}

bool send_offer(int connection, host_protocol::ring_offer description, int memfd) {
  iovec part{.iov_base = &description, .iov_len = sizeof description};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return send_descriptors(connection, message, {&memfd, 1});
}

}  // namespace

namespace ring {

mapping::mapping(int memfd) : memory_(sealed_memory::map(memfd, memory_bytes)) {}

mapping mapping::of_foreign(int memfd) {
  mapping mapped;
  mapped.memory_ = sealed_memory::map_foreign(memfd, memory_bytes);
  return mapped;
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

std::shared_ptr<ring_writer> ring_writer::offer(const abstract_name& to,
                                                const host_protocol::ring_offer& description) {
  private_descriptor connection(connect_to(to));
  if (!connection) return nullptr;
  const auto memfd = sealed_memory::make(ring::memory_bytes);
  if (!memfd) return nullptr;
  ring::mapping memory(memfd.get());
  if (memory.is_good()) {
    // A reader that has not mapped it yet is asleep.
    memory.control().reader_sleeps = 1;
    if (!send_offer(connection.get(), description, memfd.get())) memory = {};
  }
  if (!memory.is_good()) return nullptr;
  return std::shared_ptr<ring_writer>(new ring_writer(std::move(connection), std::move(memory)));
}

void ring_writer::look_at_connection() {
  pollfd end{.fd = connection_.get(), .events = 0, .revents = 0};
  if (::poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR)) != 0) closed_ = true;
  if (!closed_) return;
  // Those who hold the ring for long, such as the queue pair of a peer that has died, hold nothing.
  ring::mapping unread;
  private_descriptor ended;
  const std::lock_guard lock(mutex_);
  unread = std::move(memory_);
  ended = std::move(connection_);
}

bool ring_writer::is_empty() {
  const std::lock_guard lock(mutex_);
  return !memory_.is_good() || memory_.control().tail.load(std::memory_order_acquire) == head_;
}

bool ring_writer::has_room(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!memory_.is_good()) return true;  // what is written is lost, or goes another way
  const auto used = head_ - memory_.control().tail.load(std::memory_order_acquire);
  return used <= ring::data_bytes && ring::data_bytes - used >= reserve + 2 * record_bytes(bytes);
}

bool ring_writer::write(std::span<const iovec> parts) {
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.iov_len;
  const auto needed = record_bytes(bytes);
  const std::lock_guard lock(mutex_);
  if (!memory_.is_good()) return false;
  const auto used = head_ - memory_.control().tail.load(std::memory_order_acquire);
  if (used > ring::data_bytes) return false;  // malformed by the reader
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

void ring_writer::ring_doorbell() {
  const std::lock_guard lock(mutex_);
  if (!memory_.is_good()) return;
  auto& control = memory_.control();
  // Either the reader sees what was written before it sleeps, or we see that it sleeps: both sides
  // write their word first and then read the other's, in one order for all.
  control.head.exchange(head_, std::memory_order_seq_cst);
  if (control.reader_sleeps.load(std::memory_order_seq_cst) == 0) return;
  if (control.reader_sleeps.exchange(0) == 0) return;
  const char byte = 0;
  // A connection that is full of doorbells needs no more of them.
  if (::send(connection_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
    closed_ = true;
}

void ring_writer::release_memory() {
  const std::lock_guard lock(mutex_);
  if (!memory_.is_good() || head_ == released_at_ ||
      memory_.control().tail.load(std::memory_order_acquire) != head_)
    return;
  // Only what is written to is touched again, and nobody but this side writes.
  if (::madvise(memory_.data(), ring::data_bytes, MADV_REMOVE) == 0) released_at_ = head_;
}

bool ring_reader::next(std::span<const std::byte>& packet) {
  const auto head = memory_.control().head.load(std::memory_order_acquire);
  for (;;) {
    const auto available = head - tail_;
    if (available == 0 || malformed_) return false;
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
  malformed_ = true;
  return false;
}

void ring_reader::release() {
  tail_ = after_;
  memory_.control().tail.store(tail_, std::memory_order_release);
}

bool ring_reader::prepare_to_sleep() {
  auto& control = memory_.control();
  control.reader_sleeps.exchange(1, std::memory_order_seq_cst);
  if (control.head.load(std::memory_order_seq_cst) == tail_ || malformed_) return true;
  control.reader_sleeps.store(0, std::memory_order_relaxed);
  return false;
}

void ring_reader::awake() {
  memory_.control().reader_sleeps.store(0, std::memory_order_relaxed);
  char byte = 0;
  for (int i = 0; i < doorbells_per_turn; ++i) {
    const auto got = ::recv(connection_.get(), &byte, 1, MSG_DONTWAIT);
    if (got > 0) continue;
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) writer_gone_ = true;
    return;
  }
}

}  // namespace softverbs::engine
