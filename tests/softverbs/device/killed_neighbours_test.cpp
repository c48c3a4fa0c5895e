// Processes that are killed while they are connected leave nothing behind in the one that they
// talked to: no descriptors, no memory, and no rings that it would have to look into.

#include <chrono>
#include <csignal>
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
#include <sys/wait.h>
#include <unistd.h>

#include "connected_pair.hpp"
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
[[noreturn]] void be_a_client(std::uint32_t peer, int answer) {
  try {
    const auto context = open_device();
    const side own(context.get());
    connect(own.qp.get(), peer);
    if (::write(answer, &own.qp->qp_num, sizeof own.qp->qp_num) < 0) ::_exit(1);
    for (;;) ::pause();
  } catch (...) {
    ::_exit(1);
  }
}

void live_and_die(const side& server, std::size_t rings_before) {
  int answer[2] = {};
  ASSERT_EQ(::pipe(answer), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) be_a_client(server.qp->qp_num, answer[1]);
  ::close(answer[1]);
  std::uint32_t peer = 0;
  ASSERT_EQ(::read(answer[0], &peer, sizeof peer), static_cast<ssize_t>(sizeof peer));
  ::close(answer[0]);
  connect(server.qp.get(), peer);
  // Sockets, and no ring, lead to a process that has the port of one that died a moment ago.
  ASSERT_TRUE(comes_true([&] { return holdings_of_this_process().rings > rings_before; }));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(killed_neighbours, leave_nothing_behind) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows no thread in a child of a process that has threads";
#endif
  constexpr int clients = 200;
  const auto context = open_device();
  // With the first one comes what stays: a port, and a descriptor for hard times.
  live_and_die(side(context.get()), 0);
  ASSERT_TRUE(comes_true([] { return holdings_of_this_process().rings == 0; }));
  const auto before = holdings_of_this_process();
  for (int i = 0; i < clients && !HasFatalFailure(); ++i) {
    live_and_die(side(context.get()), before.rings);
  }
  const bool all_gone = comes_true([&] { return holdings_of_this_process() == before; });
  const auto after = holdings_of_this_process();
  EXPECT_TRUE(all_gone) << "rings: " << before.rings << ", then " << after.rings
                        << "; descriptors: " << before.descriptors << ", then "
                        << after.descriptors;
}

TEST(killed_neighbours, leave_nothing_behind_in_queue_pairs_that_stay) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows no thread in a child of a process that has threads";
#endif
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
