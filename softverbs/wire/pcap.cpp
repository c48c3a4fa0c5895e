#include <wire/pcap.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include <base/log.hpp>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wire/big_endian.hpp>
#include <wire/ip_udp.hpp>
#include <wire/packet.hpp>

namespace softverbs::wire {
namespace {

// Both in the byte order of this host: readers tell it from the magic number.
struct file_header {
  std::uint32_t magic = 0xa1b2'3c4d;  // times in nanoseconds
  std::uint16_t major = 2;
  std::uint16_t minor = 4;
  std::uint32_t zone = 0;
  std::uint32_t accuracy = 0;
  std::uint32_t most_packet_bytes = 0x4'0000;
  std::uint32_t link_type = 101;  // raw IP
};

struct record_header {
  std::uint32_t seconds;
  std::uint32_t nanoseconds;
  std::uint32_t stored_bytes;
  std::uint32_t packet_bytes;
};

record_header record_now(std::size_t bytes) {
  using namespace std::chrono;
  const auto now = system_clock::now().time_since_epoch();
  const auto whole = duration_cast<seconds>(now);
  const auto size = static_cast<std::uint32_t>(bytes);
  return {
      .seconds = static_cast<std::uint32_t>(whole.count()),
      .nanoseconds = static_cast<std::uint32_t>(duration_cast<nanoseconds>(now - whole).count()),
      .stored_bytes = size,
      .packet_bytes = size};
}

// The Internet's checksum (RFC 1071), over data in pieces of any length.
class internet_checksum {
 public:
  void add(std::span<const std::byte> data) noexcept {
    for (const std::byte b : data) {
      sum_ += std::to_integer<std::uint32_t>(b) << (odd_ ? 0 : 8);
      odd_ = !odd_;
    }
  }
  [[nodiscard]] std::uint16_t value() const noexcept {
    std::uint64_t sum = sum_;
    while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffffU);
    return static_cast<std::uint16_t>(~sum);
  }

 private:
  std::uint64_t sum_ = 0;
  bool odd_ = false;
};

std::span<const std::byte> bytes_of(const iovec& part) {
  return {static_cast<const std::byte*>(part.iov_base), part.iov_len};
}

void set_ipv4_checksum(std::span<std::byte> ip) noexcept {
  internet_checksum sum;
  sum.add(ip);
  store_big(ip.data() + 10, sum.value());
}

// Over IPv6 a UDP checksum is obligatory (RFC 8200, 8.1). `parts` is all that follows the UDP
// header.
void set_udp_checksum(std::span<std::byte> ip_udp, std::span<const iovec> parts) noexcept {
  const auto udp = ip_udp.subspan(ipv6_bytes);
  internet_checksum sum;
  sum.add(ip_udp.subspan(8, 32));                // addresses
  sum.add(udp.subspan(4, 2));                    // length
  sum.add(std::array{std::byte{0}, ip_udp[6]});  // protocol
  sum.add(udp);
  for (const iovec& part : parts) sum.add(bytes_of(part));
  // 0 would say that there is none.
  store_big(udp.data() + 6, sum.value() == 0 ? std::uint16_t{0xffff} : sum.value());
}

// Writes the file header if nobody has; false if that fails.
bool begin_file(int fd) {
  if (flock(fd, LOCK_EX) != 0) return false;
  struct stat status{};
  bool good = fstat(fd, &status) == 0;
  if (good && status.st_size == 0) {
    const file_header header;
    good = ::write(fd, &header, sizeof header) == ssize_t{sizeof header};
  }
  return flock(fd, LOCK_UN) == 0 && good;
}

}  // namespace

pcap_writer::pcap_writer(const std::string& path)
    : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (fd_ && begin_file(fd_.get())) return;
  log(log_level::error, "cannot write packets to {}: {}", path, std::strerror(errno));
  fd_.reset();
}

void pcap_writer::write(const flow& packet_flow, std::span<const iovec> parts) {
  std::size_t datagram_bytes = icrc_bytes;
  for (const iovec& part : parts) datagram_bytes += part.iov_len;

  const std::uint32_t sum = icrc(packet_flow, 0, parts);
  std::array<std::byte, icrc_bytes> trailer{};
  for (std::size_t i = 0; i < icrc_bytes; ++i) trailer[i] = static_cast<std::byte>(sum >> (8 * i));

  std::array<std::byte, most_ip_udp_bytes> room{};
  const auto ip_udp =
      std::span(room).first(encode_ip_udp(packet_flow, 0, datagram_bytes, room.data()));
  std::vector<iovec> pieces(2);  // record header and ip_udp, filled in below
  pieces.insert(pieces.end(), parts.begin(), parts.end());
  pieces.push_back({.iov_base = trailer.data(), .iov_len = trailer.size()});
  if (packet_flow.source.is_ipv4()) {
    set_ipv4_checksum(ip_udp.first(ipv4_bytes));
  } else {
    set_udp_checksum(ip_udp, std::span(pieces).subspan(2));
  }

  const std::size_t packet_bytes = ip_udp.size() + datagram_bytes;
  const std::lock_guard lock(mutex_);
  if (!fd_) return;
  record_header record = record_now(packet_bytes);  // under the lock: times do not go back
  pieces[0] = {.iov_base = &record, .iov_len = sizeof record};
  pieces[1] = {.iov_base = ip_udp.data(), .iov_len = ip_udp.size()};
  const ssize_t written = writev(fd_.get(), pieces.data(), static_cast<int>(pieces.size()));
  if (written == static_cast<ssize_t>(sizeof record + packet_bytes)) return;
  // What would follow half a packet could not be read.
  log(log_level::error, "packets are no longer recorded: {}",
      written < 0 ? std::strerror(errno) : "the disk is full");
  fd_.reset();
}

}  // namespace softverbs::wire
