// A process of another user that tries to hurt every softverbs process of its network namespace:
// it finds their names in /proc/net/unix, as any user can.
//
//   hostile_neighbour <attack>
//
//   rings      offers packet rings: a file that shrinks, unsealed memory, doorbells that block or never
//              fall silent; thousands of them, held open
//   letters    packets and messages that claim to come from somebody else, with descriptors
//   requests   requests for every service, in the name of every other process
//   liveness   thousands of connections, with orphan disconnects for the connections of others
//   port       asks for the descriptors of UDP port 4791
//   datagrams  packets and messages by UDP, from a port of its own
//
// When it has done its worst it says "done" and how often it tried, keeps everything open, and ends
// with standard input. "descriptors" instead means that it was given some.

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <cm/orphan_disconnect.hpp>
#include <engine/host_protocol.hpp>
#include <engine/packet_ring.hpp>
#include <fcntl.h>
#include <net/address.hpp>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <wire/cm_message.hpp>
#include <wire/icrc.hpp>
#include <wire/packet.hpp>

namespace {

using namespace softverbs;
using engine::abstract_name;
namespace host_protocol = engine::host_protocol;

constexpr int many = 2000;
constexpr unsigned most_seconds = 60;  // whoever started it has forgotten it

/// Where somebody of softverbs is to be found.
struct target {
  std::string name;
  net::address address;
  std::uint16_t port = 0;
};

net::address address_of(const std::string& text) {
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  if (::inet_pton(AF_INET, text.c_str(), &ipv4.sin_addr) == 1)
    return net::address::from_sockaddr(reinterpret_cast<const sockaddr*>(&ipv4));
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  ::inet_pton(AF_INET6, text.c_str(), &ipv6.sin6_addr);
  return net::address::from_sockaddr(reinterpret_cast<const sockaddr*>(&ipv6));
}

/// All names that begin so and go on with an address, and perhaps a port.
std::vector<target> targets(const std::string& beginning) {
  std::vector<target> found;
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    const auto at = line.find("@" + beginning);
    if (at == std::string::npos) continue;
    target each{.name = line.substr(at + 1), .address = {}, .port = 0};
    const auto rest = each.name.substr(beginning.size());
    const auto slash = rest.find('/');
    each.address = address_of(rest.substr(0, slash));
    if (slash != std::string::npos)
      std::from_chars(rest.data() + slash + 1, rest.data() + rest.size(), each.port);
    if (std::ranges::find(found, each.name, &target::name) == found.end()) found.push_back(each);
  }
  return found;
}

/// Those who hold ports: "softverbs/<address>/<port>".
std::vector<target> holders() {
  auto all = targets("softverbs/");
  std::erase_if(all, [](const target& each) { return each.port == 0 || each.address.is_any(); });
  return all;
}

int connected(int type, const std::string& name) {
  const int fd = ::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const abstract_name to(name);
  if (fd >= 0 && ::connect(fd, to.get(), to.bytes) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

bool send_with(int fd, std::span<const std::byte> bytes, std::span<const int> fds) {
  iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(8 * sizeof(int))> control{};
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    auto* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  return ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

template <class T>
std::span<const std::byte> bytes_of(const T& object) {
  return std::as_bytes(std::span(&object, 1));
}

/// A packet as it would stand behind a UDP header.
std::vector<std::byte> packet_of(const wire::flow& flow, wire::headers header,
                                 std::span<const std::byte> payload) {
  header.pad_bytes = static_cast<std::uint8_t>(-payload.size() & 3U);
  std::vector<std::byte> packet(wire::most_header_bytes);
  packet.resize(wire::encode(header, packet.data()));
  packet.insert(packet.end(), payload.begin(), payload.end());
  packet.resize(packet.size() + header.pad_bytes);
  const iovec whole{.iov_base = packet.data(), .iov_len = packet.size()};
  const auto sum = wire::icrc(flow, 0, {&whole, 1});
  const auto end = packet.size();
  packet.resize(end + sizeof sum);
  std::memcpy(packet.data() + end, &sum, sizeof sum);
  return packet;
}

std::vector<std::byte> message_of(const wire::flow& flow, const wire::cm_message& message) {
  const auto datagram = wire::encode(message);
  return packet_of(flow,
                   {.service = wire::transport::ud,
                    .op = wire::operation::send_only,
                    .destination_qpn = wire::management_qpn,
                    .qkey = wire::management_qkey,
                    .source_qpn = wire::management_qpn},
                   datagram);
}

std::vector<std::byte> send_of(const wire::flow& flow, std::uint32_t qpn, std::uint32_t psn) {
  const std::array<std::byte, 64> payload{};
  return packet_of(flow,
                   {.service = wire::transport::rc,
                    .op = wire::operation::send_only,
                    .destination_qpn = qpn,
                    .psn = psn},
                   payload);
}

// --- attacks: each returns how often it tried -------------------------------------------------

int memory_of_kind(int kind) {
  if (kind == 0) {
    std::string name = "/tmp/hostile-XXXXXX";
    const int file = ::mkostemp(name.data(), O_CLOEXEC);
    ::unlink(name.c_str());
    if (::ftruncate(file, engine::ring::memory_bytes) != 0) return -1;
    return file;
  }
  const int fd = ::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (::ftruncate(fd, engine::ring::memory_bytes) != 0) return -1;
  if (kind == 2) ::fcntl(fd, F_ADD_SEALS, host_protocol::ring_seals);
  return fd;
}

int attack_rings() {
  std::array<int, 2> silent{};
  if (::pipe2(silent.data(), O_CLOEXEC) != 0) return 0;
  const int loud = ::eventfd(0xffff'fff0, EFD_CLOEXEC | EFD_SEMAPHORE);
  int tried = 0;
  const auto writers = holders();
  for (const auto& each : targets("softverbs/ring/")) {
    for (const auto& writer : writers) {
      for (int kind = 0; kind < 3; ++kind) {
        for (const int doorbell : {-1, silent[0], loud}) {
          const int memory = memory_of_kind(kind);
          const int fd = connected(SOCK_SEQPACKET, each.name);
          if (memory < 0 || fd < 0) continue;
          const host_protocol::ring_offer offer{.source_port = writer.port,
                                                .source = writer.address};
          std::vector<int> fds{memory};
          if (doorbell >= 0) fds.push_back(doorbell);
          send_with(fd, bytes_of(offer), fds);
          send_with(fd, bytes_of(std::byte{1}), {});
          if (::ftruncate(memory, 0) != 0 && kind != 2) std::perror("ftruncate");
          ++tried;  // all of them stay open
        }
      }
    }
    for (int i = 0; i < many && connected(SOCK_SEQPACKET, each.name) >= 0; ++i) ++tried;
  }
  return tried;
}

std::vector<std::byte> handoff_of(const wire::flow& flow, std::span<const std::byte> packet) {
  const host_protocol::handoff_header header{
      .source = flow.source,
      .destination = flow.destination,
      .source_port = flow.source_port,
      .kind = 0,
      .segment_bytes = static_cast<std::uint32_t>(packet.size())};
  const auto bytes = bytes_of(header);
  std::vector<std::byte> letter(bytes.begin(), bytes.end());
  letter.insert(letter.end(), packet.begin(), packet.end());
  return letter;
}

int attack_letters() {
  int tried = 0;
  const auto everybody = holders();
  for (const auto& each : everybody) {
    const int fd = connected(SOCK_DGRAM, each.name);
    if (fd < 0) continue;
    for (const auto& victim : everybody) {
      const wire::flow flow{.source = victim.address,
                            .destination = each.address,
                            .source_port = victim.port,
                            .destination_port = wire::roce_udp_port};
      for (std::uint32_t i = 0; i < many / 4; ++i) {
        const auto qpn = std::uint32_t{each.port} << 8U | (i & 0xffU);
        const wire::cm_message end{.kind = wire::cm_kind::dreq,
                                   .local_id = std::uint32_t{victim.port} << 16U | i,
                                   .remote_id = std::uint32_t{each.port} << 16U | i};
        tried += send_with(fd, handoff_of(flow, send_of(flow, qpn, i)), {}) ? 1 : 0;
        tried += send_with(fd, handoff_of(flow, message_of(flow, end)), std::array{0}) ? 1 : 0;
        tried += send_with(fd, bytes_of(i), std::array{0, 0, 0, 0, 0}) ? 1 : 0;
      }
    }
  }
  return tried;
}

int attack_requests() {
  int tried = 0;
  const auto everybody = holders();
  for (const auto& each : targets("softverbs/service/")) {
    // softverbs/service/<service>/<address>
    const auto at = std::string_view("softverbs/service/").size();
    std::uint64_t service = 0;
    std::from_chars(each.name.data() + at, each.name.data() + each.name.size(), service, 16);
    const int fd = connected(SOCK_DGRAM, each.name);
    if (fd < 0) continue;
    const auto own = address_of(each.name.substr(each.name.rfind('/') + 1));
    for (const auto& victim : everybody) {
      const wire::flow flow{.source = victim.address,
                            .destination = own.is_any() ? victim.address : own,
                            .source_port = victim.port,
                            .destination_port = wire::roce_udp_port};
      for (std::uint32_t i = 0; i < many; ++i) {
        wire::cm_message request{.kind = wire::cm_kind::req,
                                 .transaction = i,
                                 .local_id = std::uint32_t{victim.port} << 16U | i,
                                 .service_id = service,
                                 .ca_guid = i};
        if (i % 3 == 1) request.kind = wire::cm_kind::sidr_req;
        if (i % 3 == 2) request.kind = wire::cm_kind::rej;
        tried += send_with(fd, handoff_of(flow, message_of(flow, request)), {}) ? 1 : 0;
      }
    }
  }
  return tried;
}

int attack_liveness() {
  int tried = 0;
  for (const auto& each : targets("softverbs/life/")) {
    for (std::uint32_t i = 0; i < many; ++i) {
      const int fd = connected(SOCK_SEQPACKET, each.name);
      if (fd < 0) continue;
      const auto comm_id = std::uint32_t{each.port} << 16U | i;
      cm::orphan_disconnect_update update{.comm_id = comm_id, .is_valid = 1, .disconnect = {}};
      update.disconnect.own = each.address;
      update.disconnect.peer = each.address;
      update.disconnect.peer.raw.back() ^= 3U;
      update.disconnect.dreq = wire::encode({.kind = wire::cm_kind::dreq, .local_id = comm_id});
      send_with(fd, bytes_of(update), {});
      send_with(fd, bytes_of(i), std::array{0, 0, 0});
      ++tried;
    }
  }
  return tried;
}

int attack_port() {
  int tried = 0;
  for (const auto& each : targets("softverbs/4791/")) {
    for (int i = 0; i < many / 10; ++i) {
      const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
      const abstract_name to(each.name);
      const timeval limit{.tv_sec = 0, .tv_usec = 100'000};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      if (::connect(fd, to.get(), to.bytes) != 0) continue;
      ++tried;
      if (i > 10) continue;  // held open
      std::array<std::byte, 64> memory{};
      alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(8 * sizeof(int))> control{};
      iovec part{.iov_base = memory.data(), .iov_len = memory.size()};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      if (::recvmsg(fd, &message, MSG_CMSG_CLOEXEC) < 0) continue;
      const auto* const header = CMSG_FIRSTHDR(&message);
      if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
        std::cout << "descriptors\n" << std::flush;
        return -1;
      }
    }
  }
  return tried;
}

int attack_datagrams() {
  int tried = 0;
  const auto everybody = holders();
  for (const auto& each : everybody) {
    const int fd =
        ::socket(each.address.is_ipv4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage own{};
    const auto own_bytes = each.address.to_sockaddr(0, 0, own);
    if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&own), own_bytes) != 0) continue;
    for (const auto port : {each.port, wire::roce_udp_port}) {
      sockaddr_storage to{};
      const auto to_bytes = each.address.to_sockaddr(port, 0, to);
      const wire::flow flow{.source = each.address,
                            .destination = each.address,
                            .source_port = 0,  // no sum that is wrong is worse than none
                            .destination_port = port};
      for (std::uint32_t i = 0; i < many; ++i) {
        const wire::cm_message lie{
            .kind = i % 2 == 0 ? wire::cm_kind::dreq : wire::cm_kind::rej,
            .local_id = i % 4 < 2 ? 0U : std::uint32_t{everybody.front().port} << 16U | i,
            .remote_id = std::uint32_t{each.port} << 16U | i};
        for (auto packet : {message_of(flow, lie),
                            send_of(flow, std::uint32_t{each.port} << 8U | (i & 0xffU), i)}) {
          // Within a host nobody sums.
          std::fill(packet.end() - wire::icrc_bytes, packet.end(), std::byte{0});
          tried += ::sendto(fd, packet.data(), packet.size(), MSG_DONTWAIT,
                            reinterpret_cast<sockaddr*>(&to), to_bytes) > 0
                       ? 1
                       : 0;
        }
      }
    }
  }
  return tried;
}

}  // namespace

int main(int count, char** words) {
  ::alarm(most_seconds);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const std::map<std::string_view, int (*)()> attacks{
      {"rings", attack_rings},       {"letters", attack_letters}, {"requests", attack_requests},
      {"liveness", attack_liveness}, {"port", attack_port},       {"datagrams", attack_datagrams}};
  const auto chosen = count == 2 ? attacks.find(words[1]) : attacks.end();
  if (chosen == attacks.end()) {
    std::fputs("usage: hostile_neighbour <attack>\n", stderr);
    return 2;
  }
  const int tried = chosen->second();
  if (tried >= 0) std::cout << "done " << tried << '\n' << std::flush;
  for (std::string line; std::getline(std::cin, line);) {
  }
}
