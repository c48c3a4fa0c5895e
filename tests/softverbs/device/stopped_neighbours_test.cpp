// A process that is stopped does not read its packets: whoever sends to it waits without being
// busy, and goes on when it does, or when it has died.

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/resource.h>
#include <unistd.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "forked_peer.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {
namespace {

using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::same_bytes;

// Far more than a ring holds, and than can be read before the reader stops.
constexpr std::size_t much = std::size_t{16} * 1024 * 1024;
constexpr std::size_t requests = 16;
constexpr std::size_t requests_before = 4;  // until the reader asks for more than a ring at once

struct source {
  std::uint32_t qpn;
  std::uint64_t address;
  std::uint32_t rkey;
};

/// In the child: reads the parent's memory, and stops when some of it has come.
void ask_and_stop(const forked_peer::teller& parent, const source& from) {
  const auto context = open_device();
  const side own(context.get());
  connect(own.qp.get(), from.qpn);
  buffer into(own.domain(), much);
  parent.tell(own.qp->qp_num);
  for (std::size_t i = 0; i < requests; ++i) {
    if (read(i, {into.sge()}, from.address, from.rkey).post(own.qp.get()) != 0) ::_exit(2);
  }
  wait_for_successes(own.send_cq.get(), requests_before);
  ::raise(SIGSTOP);
  wait_for_successes(own.send_cq.get(), requests - requests_before);
  std::vector<std::byte> expected(much);
  fill_pattern(expected, 5);
  if (!same_bytes(into.bytes(), expected)) ::_exit(3);
}

/// How often a thread of this process has gone to sleep in a while.
long sleeps_in_a_while() {
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ::getrusage(RUSAGE_SELF, &after);
  return after.ru_nvcsw - before.ru_nvcsw;
}

class stopped_neighbours : public with_forked_peers {
 protected:
  void SetUp() override {
    with_forked_peers::SetUp();
    fill_pattern(memory_.bytes(), 5);
  }

  owned<ibv_context> context_ = open_device();
  side server_{context_.get()};
  buffer memory_{server_.domain(), much};
};

TEST_F(stopped_neighbours, are_waited_for_without_haste) {
  const source from{server_.qp->qp_num, memory_.address(), memory_.rkey()};
  forked_peer client([&](const auto& parent) { ask_and_stop(parent, from); });
  connect(server_.qp.get(), client.receive<std::uint32_t>());
  client.wait_until_stopped();
  // Once each 100 µs would be thousands of times.
  EXPECT_LT(sleeps_in_a_while(), 500);
  client.resume();
  EXPECT_EQ(client.wait(), 0) << "it has got the bytes";
}

TEST_F(stopped_neighbours, are_not_waited_for_when_they_die) {
  const source from{server_.qp->qp_num, memory_.address(), memory_.rkey()};
  forked_peer client([&](const auto& parent) { ask_and_stop(parent, from); });
  connect(server_.qp.get(), client.receive<std::uint32_t>());
  client.wait_until_stopped();
  client.end();
  EXPECT_LT(sleeps_in_a_while(), 100);
}

}  // namespace
}  // namespace softverbs::device_tests
