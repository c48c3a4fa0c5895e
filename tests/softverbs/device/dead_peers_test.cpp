// A peer on the same host that ends without a word is noticed within a second.

#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>
#include <unistd.h>

#include "cm_sides.hpp"
#include "forked_peer.hpp"

namespace softverbs::device_tests {
namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// In the child: answers one request and is gone the moment after.
void answer_and_vanish(const forked_peer::teller& parent) {
  cm_listener listening;
  parent.tell(listening.port());
  listening.answer();
  ::_exit(0);
}

class dead_peers : public with_forked_peers {};

TEST_F(dead_peers, one_that_dies_with_its_answer_is_noticed_within_a_second) {
  forked_peer server(answer_and_vanish);
  cm_client client(server.receive<std::uint16_t>());
  ASSERT_EQ(server.wait(), 0);
  const auto died = steady::now();
  client.wait_for_answer();
  client.wait_for_end();
  EXPECT_LT(steady::now() - died, 1s);
}

}  // namespace
}  // namespace softverbs::device_tests
