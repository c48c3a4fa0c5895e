// Packet rings between processes, both sides in this one: what is taken, what is refused, and what
// becomes of a ring whose other side has gone.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <engine/host_protocol.hpp>
#include <engine/incoming_rings.hpp>
#include <engine/outgoing_rings.hpp>
#include <engine/passed_descriptors.hpp>
#include <engine/ring_listener.hpp>
#include <engine/sealed_memory.hpp>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::engine {
namespace {

const net::address here = net::address::loopback(true);

/// Listeners are names: their ports need not exist, but other processes run this test, too.
std::uint16_t unused_port() {
  static std::uint16_t next = static_cast<std::uint16_t>(::getpid());
  return ++next;
}

std::unique_ptr<ring_listener> listen() {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (auto made = ring_listener::open(here, unused_port())) return made;
  }
  return nullptr;
}

bool has_ended(int connection) {
  pollfd end{.fd = connection, .events = 0, .revents = 0};
  return ::poll(&end, 1, 0) > 0 && (end.revents & POLLHUP) != 0;
}

/// In the order in which they are watched.
class watched_connections final : public source_watcher {
 public:
  void add(int fd, packet_source& source, std::uint32_t /*events*/) override {
    sources_.push_back(&source);
    fds_.insert(fd);
  }
  void remove(int fd) override { EXPECT_EQ(fds_.erase(fd), 1U); }
  [[nodiscard]] const packet_source& at(std::size_t index) const { return *sources_.at(index); }
  [[nodiscard]] std::size_t count() const { return fds_.size(); }

 private:
  std::vector<packet_source*> sources_;
  std::set<int> fds_;
};

class packet_rings : public testing::Test {
 protected:
  static constexpr incoming_rings::limits limits{
      .in_all = 4, .from_one_process = 3, .without_offer = 2};

  void SetUp() override { ASSERT_NE(listener_, nullptr); }

  [[nodiscard]] abstract_name place() const {
    return host_protocol::ring_listener_name(here, listener_->port());
  }
  [[nodiscard]] std::shared_ptr<ring_writer> offer() const {
    return ring_writer::offer(place(), {.source_port = 7, .source = here});
  }
  static void write(ring_writer& into, std::string_view text) {
    const iovec part{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
    EXPECT_TRUE(into.write({&part, 1}));
    into.ring_doorbell();
  }
  [[nodiscard]] std::vector<std::string> read() {
    std::vector<std::string> packets;
    rings_.read([&](incoming_rings::ring& each) {
      each.reader.read(100, [&](std::span<const std::byte> bytes) {
        packets.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      });
    });
    return packets;
  }
  /// A connection by hand.
  [[nodiscard]] private_descriptor connect() const {
    private_descriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto name = place();
    EXPECT_EQ(::connect(fd.get(), name.get(), name.bytes), 0);
    return fd;
  }
  static void send(int connection, host_protocol::ring_offer description,
                   std::span<const int> fds) {
    iovec part{.iov_base = &description, .iov_len = sizeof description};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    EXPECT_TRUE(send_descriptors(connection, message, fds));
  }
  void expect_refused(std::span<const int> fds, host_protocol::ring_offer description = {}) {
    const auto connection = connect();
    send(connection.get(), description, fds);
    EXPECT_TRUE(rings_.accept_from(*listener_));
    EXPECT_EQ(rings_.size(), 0U);
    EXPECT_TRUE(has_ended(connection.get()));
  }
  void expect_refused(int fd) {
    ASSERT_GE(fd, 0);
    expect_refused({&fd, 1});
    ::close(fd);
  }

  std::unique_ptr<ring_listener> listener_ = listen();
  watched_connections connections_;
  incoming_rings rings_{limits, connections_};
};

int memory_with(int seals, std::size_t bytes = ring::memory_bytes) {
  const int fd = ::memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

TEST_F(packet_rings, carry_packets_in_order) {
  const auto writer = offer();
  ASSERT_NE(writer, nullptr);
  write(*writer, "one");
  EXPECT_TRUE(rings_.accept_from(*listener_));
  write(*writer, "two");
  EXPECT_EQ(read(), (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(writer->is_empty());
  EXPECT_FALSE(writer->is_closed());
}

TEST_F(packet_rings, are_forgotten_after_their_writer_and_its_last_packet) {
  auto writer = offer();
  EXPECT_TRUE(rings_.accept_from(*listener_));
  write(*writer, "last words");
  writer = nullptr;
  rings_.on_event(connections_.at(0), true, false);
  EXPECT_EQ(rings_.size(), 1U);
  EXPECT_EQ(read(), (std::vector<std::string>{"last words"}));
  EXPECT_EQ(rings_.size(), 0U);
  EXPECT_EQ(connections_.count(), 0U) << "a child of a fork may still hold the connection";
}

TEST_F(packet_rings, the_end_of_a_writer_is_found_by_the_bell_too) {
  auto writer = offer();
  EXPECT_TRUE(rings_.accept_from(*listener_));
  writer = nullptr;
  rings_.on_event(connections_.at(0), false, true);
  EXPECT_EQ(rings_.size(), 0U);
}

TEST_F(packet_rings, a_writer_learns_that_nobody_reads_any_more) {
  const auto writer = offer();
  {
    watched_connections theirs;
    incoming_rings others(limits, theirs);
    EXPECT_TRUE(others.accept_from(*listener_));
    writer->look_at_connection();
    EXPECT_FALSE(writer->is_closed());
  }
  writer->look_at_connection();
  EXPECT_TRUE(writer->is_closed());
}

TEST_F(packet_rings, are_not_offered_where_nobody_listens) {
  listener_ = nullptr;
  const auto nowhere = host_protocol::ring_listener_name(here, unused_port());
  EXPECT_EQ(ring_writer::offer(nowhere, {}), nullptr);
  EXPECT_EQ(errno, ECONNREFUSED);
}

TEST_F(packet_rings, an_ordinary_file_is_refused) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(::ftruncate(::fileno(file), ring::memory_bytes), 0);
  expect_refused(::dup(::fileno(file)));
  std::fclose(file);
}

TEST_F(packet_rings, what_is_no_file_is_refused) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  expect_refused(ends[0]);
  ::close(ends[1]);
}

TEST_F(packet_rings, memory_with_other_seals_or_of_another_size_is_refused) {
  constexpr int right = host_protocol::ring_seals;
  expect_refused(memory_with(F_SEAL_GROW | F_SEAL_SEAL));
  expect_refused(memory_with(F_SEAL_SHRINK));
  expect_refused(memory_with(0));
  expect_refused(memory_with(right | F_SEAL_FUTURE_WRITE));
  expect_refused(memory_with(right | F_SEAL_WRITE));
  expect_refused(memory_with(right, ring::memory_bytes - 4096));
  expect_refused(memory_with(right, ring::memory_bytes + 4096));
}

TEST_F(packet_rings, more_or_fewer_descriptors_than_one_are_refused) {
  const int memory = memory_with(host_protocol::ring_seals);
  expect_refused(std::array{memory, memory});
  expect_refused(std::array{memory, memory, memory});
  const auto connection = connect();
  EXPECT_EQ(::send(connection.get(), "x", 1, 0), 1);
  EXPECT_TRUE(rings_.accept_from(*listener_));
  EXPECT_TRUE(has_ended(connection.get()));
  ::close(memory);
}

TEST_F(packet_rings, another_version_is_refused) {
  const int memory = memory_with(host_protocol::ring_seals);
  expect_refused({&memory, 1}, {.version = 2});
  ::close(memory);
}

TEST_F(packet_rings, beyond_the_limit_of_a_process_they_are_refused) {
  std::vector<std::shared_ptr<ring_writer>> writers;
  writers.reserve(limits.from_one_process + 2);
  for (std::size_t i = 0; i < limits.from_one_process + 1; ++i) writers.push_back(offer());
  EXPECT_TRUE(rings_.accept_from(*listener_));
  EXPECT_EQ(rings_.size(), limits.from_one_process);
  for (const auto& each : writers) each->look_at_connection();
  EXPECT_EQ(std::ranges::count_if(writers, [](const auto& each) { return each->is_closed(); }), 1);
  EXPECT_TRUE(writers.back()->is_closed());
  // One that ends makes place.
  writers.front() = nullptr;
  rings_.on_event(connections_.at(0), true, false);
  writers.push_back(offer());
  EXPECT_TRUE(rings_.accept_from(*listener_));
  EXPECT_EQ(rings_.size(), limits.from_one_process);
}

TEST_F(packet_rings, only_so_many_connections_wait_for_their_offer) {
  std::vector<private_descriptor> connections;
  for (std::size_t i = 0; i < limits.without_offer + 1; ++i) {
    connections.push_back(connect());
    EXPECT_TRUE(rings_.accept_from(*listener_));
  }
  EXPECT_TRUE(has_ended(connections[0].get()));
  EXPECT_FALSE(has_ended(connections[1].get()));
  // An offer that comes late is as good as any.
  const int memory = memory_with(host_protocol::ring_seals);
  send(connections[1].get(), {}, {&memory, 1});
  rings_.on_event(connections_.at(1), false, false);
  EXPECT_EQ(rings_.size(), 1U);
  ::close(memory);
}

TEST_F(packet_rings, a_ring_that_lies_is_forgotten) {
  for (const std::uint64_t head : {std::uint64_t{4}, std::uint64_t{64}, ring::data_bytes + 8}) {
    const int memory = memory_with(host_protocol::ring_seals);
    const ring::mapping mapped(memory);
    ASSERT_TRUE(mapped.is_good());
    const std::uint32_t too_long = 1000;
    std::memcpy(mapped.data(), &too_long, sizeof too_long);
    mapped.control().head = head;
    const auto connection = connect();
    send(connection.get(), {}, {&memory, 1});
    EXPECT_TRUE(rings_.accept_from(*listener_));
    EXPECT_EQ(rings_.size(), 1U);
    EXPECT_TRUE(read().empty());
    EXPECT_EQ(rings_.size(), 0U);
    EXPECT_TRUE(has_ended(connection.get()));
    ::close(memory);
  }
}

/// What this process has mapped of memory that others may share, in KiB.
std::size_t shared_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssShmem:"))
      return std::stoul(line.substr(line.find_first_of("0123456789")));
  }
  return 0;
}

TEST_F(packet_rings, keep_no_memory_after_a_burst) {
  const auto writer = offer();
  EXPECT_TRUE(rings_.accept_from(*listener_));
  const std::string packet(4000, 'x');
  const auto before = shared_memory();
  for (int burst = 0; burst < 2; ++burst) {
    std::size_t written = 0;
    for (; writer->has_room(packet.size()); ++written) write(*writer, packet);
    EXPECT_GE(shared_memory(), before + 400);
    writer->release_memory();
    std::vector<std::string> got;
    while (got.size() < written) {
      const auto more = read();
      ASSERT_FALSE(more.empty()) << "packets that nobody has read are lost";
      got.insert(got.end(), more.begin(), more.end());
    }
    EXPECT_TRUE(std::ranges::all_of(got, [&](const auto& each) { return each == packet; }));
    writer->release_memory();
    EXPECT_LE(shared_memory(), before + 16);
  }
}

TEST_F(packet_rings, a_flood_of_bells_is_answered_in_turns) {
  const auto writer = offer();
  EXPECT_TRUE(rings_.accept_from(*listener_));
  int sent = 0;
  while (::send(writer->connection(), "x", 1, MSG_DONTWAIT) == 1) ++sent;
  ASSERT_GT(sent, 16);
  rings_.on_event(connections_.at(0), false, true);
  // Some of them are still there.
  EXPECT_EQ(rings_.size(), 1U);
  for (int i = 0; i < sent / 16 + 1; ++i) rings_.on_event(connections_.at(0), false, true);
  EXPECT_EQ(::send(writer->connection(), "x", 1, MSG_DONTWAIT), 1);
}

TEST_F(packet_rings, are_refused_when_no_descriptor_is_left) {
  EXPECT_TRUE(rings_.accept_from(*listener_));  // provides the reserve
  const auto connection = connect();
  const int memory = memory_with(host_protocol::ring_seals);
  send(connection.get(), {}, {&memory, 1});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // No number beyond the lowest free one, which stays free.
  const int lowest = ::dup(memory);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(lowest) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  const bool accepted = rings_.accept_from(*listener_);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(accepted);
  EXPECT_EQ(rings_.size(), 0U);
  EXPECT_TRUE(has_ended(connection.get()));
  ::close(lowest);
  ::close(memory);
}

// --- the rings that this process writes to -----------------------------------------------------

class outgoing_packet_rings : public testing::Test {
 protected:
  void listen_on(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      listeners_.push_back(listen());
      ASSERT_NE(listeners_.back(), nullptr);
    }
  }
  [[nodiscard]] outgoing_rings::ends to(const ring_listener& listener) const {
    return {.own = here, .to = here, .port = 7, .to_port = listener.port()};
  }

  std::vector<std::unique_ptr<ring_listener>> listeners_;
  receive_state state_;
};

TEST_F(outgoing_packet_rings, to_many_peers_are_made_once_each) {
  listen_on(64);
  outgoing_rings rings({});
  for (int round = 0; round < 3; ++round) {
    for (const auto& each : listeners_) EXPECT_NE(rings.find_or_offer(to(*each)), nullptr);
  }
  EXPECT_EQ(rings.offered(), listeners_.size());
}

TEST_F(outgoing_packet_rings, those_in_use_are_never_given_up) {
  listen_on(4);
  outgoing_rings rings({.in_all = 2});
  const auto first = rings.find_or_offer(to(*listeners_[0]));
  EXPECT_NE(rings.find_or_offer(to(*listeners_[1])), nullptr);
  const auto third = rings.find_or_offer(to(*listeners_[2]));
  EXPECT_NE(third, nullptr);
  EXPECT_EQ(rings.find_or_offer(to(*listeners_[3])), nullptr);
  EXPECT_EQ(rings.find_or_offer(to(*listeners_[0])), first);
  EXPECT_EQ(rings.offered(), 3U);
}

TEST_F(outgoing_packet_rings, only_so_many_are_kept_for_nobody) {
  listen_on(3);
  outgoing_rings rings({.in_all = 100, .idle = 2});
  for (const auto& each : listeners_) EXPECT_NE(rings.find_or_offer(to(*each)), nullptr);
  EXPECT_NE(rings.find_or_offer(to(*listeners_[2])), nullptr);
  EXPECT_EQ(rings.offered(), 3U);
  EXPECT_NE(rings.find_or_offer(to(*listeners_[0])), nullptr);
  EXPECT_EQ(rings.offered(), 4U);
}

TEST_F(outgoing_packet_rings, one_that_was_refused_is_not_offered_again_at_once) {
  listen_on(1);
  outgoing_rings rings({});
  const auto ring = rings.find_or_offer(to(*listeners_[0]));
  ASSERT_NE(ring, nullptr);
  watched_connections none;
  incoming_rings nobody({.in_all = 0}, none);
  EXPECT_TRUE(nobody.accept_from(*listeners_[0]));
  EXPECT_FALSE(rings.receive(state_, EPOLLIN)) << "news, not packets";
  EXPECT_TRUE(ring->is_closed());
  EXPECT_EQ(rings.find_or_offer(to(*listeners_[0])), nullptr);
  EXPECT_EQ(rings.offered(), 1U);
}

TEST_F(outgoing_packet_rings, to_a_successor_of_the_peer_are_made_anew) {
  listen_on(1);
  const auto port = listeners_[0]->port();
  outgoing_rings rings({});
  const auto ends = to(*listeners_[0]);
  const auto first = rings.find_or_offer(ends);
  listeners_.clear();
  listeners_.push_back(ring_listener::open(here, port));
  ASSERT_NE(listeners_[0], nullptr);
  const auto second = rings.find_or_offer(ends);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_TRUE(first->is_closed());
}

}  // namespace
}  // namespace softverbs::engine
