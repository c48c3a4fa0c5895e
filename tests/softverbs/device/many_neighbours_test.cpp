// Datagrams to many processes of this host, in turn: each has a ring, which is made once.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include "connected_pair.hpp"
#include "forked_peer.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {
namespace {

constexpr std::uint64_t rounds = 50;
constexpr pair_options datagram{.type = IBV_QPT_UD};

/// In the child: takes that many datagrams, and waits to be killed.
void take(const forked_peer::teller& parent) {
  const auto context = open_device();
  const side own(context.get(), datagram);
  buffer into(own.domain(), 1024);
  connect(own.qp.get(), 0, datagram);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    if (post_receive(own.qp.get(), i, {into.sge()}) != 0) ::_exit(2);
  }
  parent.tell(own.qp->qp_num);
  wait_for_successes(own.recv_cq.get(), rounds);
  parent.tell(true);
  for (;;) ::pause();
}

/// The files behind the rings that this process has mapped.
std::set<std::string> rings() {
  std::set<std::string> inodes;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto name = line.find("/memfd:softverbs");
    if (name == std::string::npos) continue;
    const auto end = line.find_last_not_of(' ', name - 1);
    inodes.insert(line.substr(line.rfind(' ', end) + 1, end - line.rfind(' ', end)));
  }
  return inodes;
}

class many_neighbours : public with_forked_peers {};

TEST_F(many_neighbours, have_one_ring_each) {
  constexpr std::size_t neighbours = 12;
  std::vector<std::unique_ptr<forked_peer>> peers;
  for (std::size_t i = 0; i < neighbours; ++i) peers.push_back(std::make_unique<forked_peer>(take));
  std::vector<std::uint32_t> numbers;
  for (const auto& peer : peers) numbers.push_back(peer->receive<std::uint32_t>());

  const auto context = open_device();
  const side sender(context.get(), datagram);
  connect(sender.qp.get(), 0, datagram);
  const buffer from(sender.domain(), 512);
  const auto way = address_of_neighbour(sender.domain());
  std::set<std::string> made;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (const auto number : numbers) {
      ASSERT_EQ(send(round, {from.sge()}).to(way.get(), number, queue_key).post(sender.qp.get()),
                0);
      wait_for_success(sender.send_cq.get());
    }
    if (round == 0) made = rings();
  }
  for (const auto& peer : peers) EXPECT_TRUE(peer->receive<bool>()) << "datagrams are missing";
  EXPECT_GE(made.size(), neighbours);
  const auto at_last = rings();
  EXPECT_TRUE(std::ranges::includes(at_last, made)) << "rings are made anew";
  EXPECT_LE(at_last.size(), 2 * neighbours) << "with those of the answers that limit a flow";
}

}  // namespace
}  // namespace softverbs::device_tests
