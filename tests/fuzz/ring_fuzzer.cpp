// libFuzzer target: a neighbour offers a packet ring and fills it with anything. No offer but a
// right one is taken, every packet that is read lies in the ring, and an inconsistent ring is
// forgotten.
//
// Input: how the memory is made, the offer, then the ring's head and its bytes, several times.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <engine/host_protocol.hpp>
#include <engine/incoming_rings.hpp>
#include <engine/packet_ring.hpp>
#include <engine/passed_descriptors.hpp>
#include <engine/ring_listener.hpp>
#include <fcntl.h>
#include <net/address.hpp>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "input.hpp"

namespace {

using namespace softverbs;
using namespace softverbs::engine;
using fuzz::require;

constexpr std::uint16_t port = 5;

ring_listener& listener() {
  static auto made = [] {
    // Named after the process, so that many fuzzers can run at once.
    auto own = net::address::loopback(false);
    const auto pid = ::getpid();
    std::memcpy(own.raw.data(), &pid, sizeof pid);
    return ring_listener::open(own, port);
  }();
  require(made != nullptr);
  return *made;
}

class nobody_watches final : public source_watcher {
 public:
  void add(int /*fd*/, packet_source& /*source*/, std::uint32_t /*events*/) override {}
  void remove(int /*fd*/) override {}
};

struct memory {
  int fd = -1;
  bool is_right = false;
};

memory make_memory(fuzz::input& from) {
  const auto kind = from.below(8);
  const auto bytes = kind == 1 ? ring::memory_bytes - 1 : ring::memory_bytes;
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  require(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0);
  const int seals = kind == 2 ? F_SEAL_GROW | F_SEAL_SEAL : host_protocol::ring_seals;
  if (kind != 3) require(::fcntl(fd, F_ADD_SEALS, seals) == 0);
  return {.fd = fd, .is_right = kind == 0 || kind > 3};
}

/// Writes into the ring as its writer could, and reads as its reader does.
void try_content(fuzz::input& from, incoming_rings& rings, int memfd) {
  void* const mapped =
      ::mmap(nullptr, ring::memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  require(mapped != MAP_FAILED);
  auto& control = *static_cast<ring::shared*>(mapped);
  auto* const data = static_cast<std::byte*>(mapped) + (ring::memory_bytes - ring::data_bytes);
  while (!from.is_empty() && !rings.is_empty()) {
    const auto tail = control.tail.load();
    const auto bytes = from.bytes(from.below(64));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      data[(tail + i) % ring::data_bytes] = std::byte{bytes[i]};
    control.head = from.chance() ? tail + from.below(128) : tail + from.hostile();
    std::size_t packets = 0;
    rings.read([&](incoming_rings::ring& each) {
      packets += each.reader.read(32, [&](std::span<const std::byte> packet) {
        require(packet.size() <= ring::data_bytes);
        // The address sanitizer sees what lies outside of the mapping.
        unsigned sum = 0;
        for (const auto byte : packet) sum += std::to_integer<unsigned>(byte);
        require(sum <= packet.size() * 255);
      });
    });
    require(packets <= 32);
  }
  ::munmap(mapped, ring::memory_bytes);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input from({data, size});
  nobody_watches watcher;
  incoming_rings rings({}, watcher);
  const int writer = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const auto name = host_protocol::ring_listener_name(listener().own_address(), port);
  require(::connect(writer, name.get(), name.bytes) == 0);

  const auto given = make_memory(from);
  host_protocol::ring_offer offer;
  std::vector<std::byte> bytes(sizeof offer);
  std::memcpy(bytes.data(), &offer, sizeof offer);
  const auto replaced = from.bytes(from.below(sizeof offer));
  std::ranges::copy(std::as_bytes(replaced), bytes.begin());
  if (from.below(16) == 1) bytes.resize(from.below(255) + 1);
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const std::array fds{given.fd, given.fd};
  const auto count = from.below(16) == 1 ? 2U : 1U;
  require(send_descriptors(writer, message, std::span(fds).first(count)));
  require(rings.accept_from(listener()));
  if (!rings.is_empty()) {
    require(given.is_right && count == 1 && bytes.size() == sizeof offer);
    try_content(from, rings, given.fd);
  }
  ::close(given.fd);
  ::close(writer);
  return 0;
}
