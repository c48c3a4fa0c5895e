#include <engine/socket_pool.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <engine/host_protocol.hpp>
#include <engine/passed_descriptors.hpp>
#include <gtest/gtest.h>
#include <net/udp_socket.hpp>
#include <netinet/udp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace softverbs::engine {
namespace {

using host_protocol::port_slots;

constexpr unsigned loopback_index = 1;
constexpr auto some_ports = std::to_array<std::uint16_t>({40'000, 40'001, 50'000});

net::address here() {
  net::address made;
  made.raw[10] = made.raw[11] = 0xff;
  made.raw[12] = 127;
  made.raw.back() = 1;
  return made;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// While it lives, the process can have only so many descriptors more.
class few_descriptors {
 public:
  explicit few_descriptors(unsigned more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    std::vector<int> taken(more);
    for (int& fd : taken) fd = ::dup(STDERR_FILENO);
    auto tight = before_;
    tight.rlim_cur = static_cast<rlim_t>(taken.back()) + 1;
    for (const int fd : taken) ::close(fd);
    ::setrlimit(RLIMIT_NOFILE, &tight);
  }
  few_descriptors(const few_descriptors&) = delete;
  few_descriptors& operator=(const few_descriptors&) = delete;
  ~few_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// An AF_UNIX connection; what is sent through the second end lies in the first.
struct connection {
  connection() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection() {
    for (const int fd : ends) ::close(fd);
  }
  [[nodiscard]] bool send(std::span<const int> fds) const {
    char byte = 0;
    iovec part{.iov_base = &byte, .iov_len = 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return send_descriptors(ends[1], message, fds);
  }
  std::array<int, 2> ends{};
};

std::optional<socket_pool> adopted(int queue, std::uint16_t port) {
  return socket_pool::adopt(private_descriptor(::dup(queue)), here(), port, loopback_index);
}

class socket_pools : public testing::Test {
 protected:
  void SetUp() override {
    first_ = net::udp_socket::bind(here(), 0, loopback_index);
    ASSERT_NE(first_, nullptr) << std::strerror(errno);
    port_ = first_->port();
  }

  /// Whether the process of that port gets what is sent to it.
  static bool is_reached(const socket_pool& pool, std::uint16_t pool_port, std::uint16_t own_port) {
    const auto reader = pool.socket(pool.slot_of(own_port));
    if (reader == nullptr) return false;
    std::array<std::byte, 16> packet{};
    packet[5] = static_cast<std::byte>(own_port >> 8);
    packet[6] = static_cast<std::byte>(own_port & 0xff);
    sockaddr_storage to{};
    const auto bytes = here().to_sockaddr(pool_port, loopback_index, to);
    const auto sender = net::udp_socket::bind(here(), 0, loopback_index);
    const iovec whole{.iov_base = packet.data(), .iov_len = packet.size()};
    net::receive_buffers buffers;
    return sender->send(to, bytes, {&whole, 1}, 0) == 0 && buffers.receive(*reader).size() == 1;
  }

  std::unique_ptr<net::udp_socket> first_;
  std::uint16_t port_ = 0;
};

TEST_F(socket_pools, cost_a_process_one_descriptor) {
  const auto before = open_descriptors();
  const auto pool = socket_pool::make(*first_);
  ASSERT_TRUE(pool) << std::strerror(errno);
  EXPECT_EQ(open_descriptors(), before + 1);
  EXPECT_NE(pool->slot_of(40'000), pool->slot_of(40'001));
  const auto socket = pool->socket(7);
  EXPECT_EQ(open_descriptors(), before + 2);
}

TEST_F(socket_pools, end_with_the_last_queue) {
  std::optional<socket_pool> second;
  {
    const auto pool = socket_pool::make(*first_);
    ASSERT_TRUE(pool);
    second = adopted(pool->queue(), port_);
    first_.reset();
  }
  ASSERT_TRUE(second) << std::strerror(errno);
  for (const auto own : some_ports) {
    EXPECT_TRUE(is_reached(*second, port_, own)) << own;
  }
  EXPECT_EQ(net::udp_socket::bind(here(), port_, loopback_index), nullptr);
  second.reset();
  EXPECT_NE(net::udp_socket::bind(here(), port_, loopback_index), nullptr);
}

TEST_F(socket_pools, outlive_the_process_that_made_them) {
  const connection line;
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto pool = socket_pool::make(*first_);
    const bool sent = pool && line.send(std::array{pool->queue()});
    ::_exit(sent ? 0 : 1);
  }
  first_.reset();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const received_descriptors<> received(message);
  ASSERT_EQ(::recvmsg(line.ends[0], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC), 1);
  auto queue = private_descriptor(std::move(received.take(message, 1)[0]));
  const auto pool = socket_pool::adopt(std::move(queue), here(), port_, loopback_index);
  ASSERT_TRUE(pool) << std::strerror(errno);
  for (const auto own : some_ports) {
    EXPECT_TRUE(is_reached(*pool, port_, own)) << own;
  }
}

TEST_F(socket_pools, are_not_adopted_from_anything_else) {
  const auto before = open_descriptors();
  {
    const auto refused = [&](int fd) {
      errno = 0;
      return !adopted(fd, port_) && errno != 0;
    };
    const connection empty;
    EXPECT_TRUE(refused(empty.ends[0]));
    EXPECT_TRUE(refused(first_->fd()));
    EXPECT_TRUE(refused(STDERR_FILENO));
    EXPECT_TRUE(refused(-1));

    const connection several;
    ASSERT_TRUE(several.send(std::array{first_->fd(), first_->fd()}));
    EXPECT_TRUE(refused(several.ends[0]));

    const connection others;
    std::array<int, port_slots> fds{};
    fds.fill(first_->fd());
    const auto stranger = net::udp_socket::bind(here(), 0, loopback_index);
    fds.back() = stranger->fd();
    ASSERT_TRUE(others.send(fds));
    EXPECT_TRUE(refused(others.ends[0]));
    fds.back() = STDERR_FILENO;
    const connection files;
    ASSERT_TRUE(files.send(fds));
    EXPECT_TRUE(refused(files.ends[0]));
    const connection datagrams;  // with nothing attached
    ASSERT_EQ(::send(datagrams.ends[1], "x", 1, 0), 1);
    EXPECT_TRUE(refused(datagrams.ends[0]));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(socket_pools, have_a_single_socket_if_descriptors_are_scarce) {
  const auto pool = [&] {
    const few_descriptors scarce(10);
    return socket_pool::make(*first_);
  }();
  ASSERT_TRUE(pool) << std::strerror(errno);
  EXPECT_EQ(pool->slot_of(40'000), pool->slot_of(40'001));
  EXPECT_TRUE(is_reached(*pool, port_, 40'000));
  const auto second = adopted(pool->queue(), port_);
  ASSERT_TRUE(second) << std::strerror(errno);
  EXPECT_EQ(second->slot_of(40'000), 0U);
}

TEST_F(socket_pools, say_that_descriptors_are_missing_and_lose_none) {
  const auto pool = socket_pool::make(*first_);
  ASSERT_TRUE(pool);
  const auto before = open_descriptors();
  {
    const few_descriptors scarce(10);
    EXPECT_FALSE(adopted(pool->queue(), port_));
    EXPECT_EQ(errno, EMFILE);
    EXPECT_EQ(pool->socket(3), nullptr);
    EXPECT_EQ(errno, EMFILE);
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_TRUE(is_reached(*pool, port_, 40'000));
}

TEST_F(socket_pools, stop_coalescing_in_every_socket) {
  const auto pool = socket_pool::make(*first_);
  ASSERT_TRUE(pool);
  const auto coalesces = [&](unsigned slot) {
    int value = -1;
    socklen_t bytes = sizeof value;
    const auto socket = pool->socket(slot);
    EXPECT_EQ(::getsockopt(socket->fd(), IPPROTO_UDP, UDP_GRO, &value, &bytes), 0);
    return value != 0;
  };
  for (unsigned slot = 0; slot < port_slots; ++slot) EXPECT_TRUE(coalesces(slot)) << slot;
  pool->stop_coalescing();
  for (unsigned slot = 0; slot < port_slots; ++slot) EXPECT_FALSE(coalesces(slot)) << slot;
}

}  // namespace
}  // namespace softverbs::engine
