// Processes that are killed while they are connected leave nothing behind in the one that they
// talked to: no descriptors, no memory, and no rings that it would have to look into at each poll.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <unistd.h>

#include "connected_pair.hpp"
#include "forked_peer.hpp"
#include "owned.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {
namespace {

struct holdings {
  std::size_t rings = 0;
  std::size_t descriptors = 0;
  friend bool operator==(const holdings&, const holdings&) = default;
};

holdings holdings_of_this_process() {
  holdings found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.contains("/memfd:softverbs")) ++found.rings;
  }
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  found.descriptors = static_cast<std::size_t>(std::distance(begin(descriptors), end(descriptors)));
  return found;
}

template <class Condition>
bool comes_true(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::sched_yield();
  }
  return true;
}

/// In the child: connects to the parent's queue pair, tells its own number, and waits to be killed.
class client : public forked_peer {
 public:
  explicit client(std::uint32_t peer)
      : forked_peer([peer](const teller& parent) {
          const auto context = open_device();
          const side own(context.get());
          connect(own.qp.get(), peer);
          parent.tell(own.qp->qp_num);
          for (;;) ::pause();
        }) {}
};

void live_and_die(const side& server, std::size_t rings_before) {
  client connected(server.qp->qp_num);
  connect(server.qp.get(), connected.receive<std::uint32_t>());
  // Sockets, and no ring, lead to a process that has the port of one that died a moment ago.
  ASSERT_TRUE(comes_true([&] { return holdings_of_this_process().rings > rings_before; }));
  connected.end();
}

/// In KiB, without what is shared with the program's file.
std::size_t memory_of_this_process() {
  std::size_t found = 0;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:") || line.starts_with("RssShmem:"))
      found += std::stoul(line.substr(line.find_first_of("0123456789")));
  }
  return found;
}

/// Of the quickest of many rounds: whatever else the machine does, one of them goes undisturbed.
std::chrono::nanoseconds time_to_poll(ibv_cq* cq) {
  auto shortest = std::chrono::nanoseconds::max();
  for (int round = 0; round < 100; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) {
      ibv_wc none{};
      EXPECT_EQ(ibv_poll_cq(cq, 1, &none), 0);
    }
    shortest =
        std::min(shortest, std::chrono::nanoseconds(std::chrono::steady_clock::now() - start));
  }
  return shortest;
}

class killed_neighbours : public with_forked_peers {};

TEST_F(killed_neighbours, leave_nothing_behind) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr int clients = 100;  // the sanitizer makes forks dear, and keeps freed memory
  constexpr std::size_t tolerated_memory = 64 * 1024;
#else
  constexpr int clients = 1000;
  constexpr std::size_t tolerated_memory = 2 * 1024;
#endif
  const auto context = open_device();
  const auto cq = own(ibv_create_cq(context.get(), 16, nullptr, nullptr, 0));
  // With the first one comes what stays: a port, and a descriptor for hard times.
  live_and_die(side(context.get()), 0);
  ASSERT_TRUE(comes_true([] { return holdings_of_this_process().rings == 0; }));
  const auto before = holdings_of_this_process();
  const auto memory_before = memory_of_this_process();
  const auto poll_before = time_to_poll(cq.get());
  for (int i = 0; i < clients && !HasFatalFailure(); ++i) {
    live_and_die(side(context.get()), before.rings);
  }
  const bool all_gone = comes_true([&] { return holdings_of_this_process() == before; });
  const auto after = holdings_of_this_process();
  EXPECT_TRUE(all_gone) << "rings: " << before.rings << ", then " << after.rings
                        << "; descriptors: " << before.descriptors << ", then "
                        << after.descriptors;
  EXPECT_LE(memory_of_this_process(), memory_before + tolerated_memory) << "KiB";
  EXPECT_LE(time_to_poll(cq.get()), 3 * poll_before);
}

TEST_F(killed_neighbours, leave_nothing_behind_in_queue_pairs_that_stay) {
  constexpr int clients = 20;
  const auto context = open_device();
  std::vector<std::unique_ptr<side>> servers;
  for (int i = 0; i < clients && !HasFatalFailure(); ++i) {
    servers.push_back(std::make_unique<side>(context.get()));
    live_and_die(*servers.back(), 0);
    EXPECT_TRUE(comes_true([] { return holdings_of_this_process().rings == 0; }));
  }
}

}  // namespace
}  // namespace softverbs::device_tests
