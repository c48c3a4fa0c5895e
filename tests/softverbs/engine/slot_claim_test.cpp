#include <engine/slot_claim.hpp>

#include <array>
#include <optional>
#include <set>

#include <engine/receive_steering.hpp>
#include <gtest/gtest.h>
#include <unistd.h>

namespace softverbs::engine {
namespace {

// Claims are names in the network namespace, where other processes may run this test, too.
unsigned imaginary_netdev() { return 0x4000'0000U + static_cast<unsigned>(::getpid()); }

TEST(slot_claim, is_for_one_process_until_it_ends) {
  std::optional<slot_claim> one(imaginary_netdev());
  slot_claim other(imaginary_netdev());
  EXPECT_TRUE(one->covers(40'000));
  EXPECT_TRUE(one->covers(40'000));
  EXPECT_FALSE(one->covers(40'001));
  EXPECT_FALSE(other.covers(40'000));
  EXPECT_FALSE(other.covers(40'000 + host_protocol::port_slots - 1));
  EXPECT_TRUE(other.covers(40'001));
  one.reset();
  slot_claim third(imaginary_netdev());
  EXPECT_TRUE(third.covers(40'000));
}

TEST(slot_claim, is_for_one_netdev) {
  slot_claim one(imaginary_netdev());
  slot_claim other(imaginary_netdev() + 0x1000'0000U);
  EXPECT_TRUE(one.covers(40'000));
  EXPECT_TRUE(other.covers(40'000));
}

TEST(slot_claim, leaves_the_first_port_to_the_kernel_and_keeps_the_others_in_its_slot) {
  for (const auto first :
       std::to_array<std::uint16_t>({1024, 32'768, 40'000, 60'999, 61'000, 65'534})) {
    slot_claim claim(imaginary_netdev());
    EXPECT_EQ(claim.next_port(), 0U);
    ASSERT_TRUE(claim.covers(first));
    std::set<std::uint16_t> ports{first};
    for (int i = 0; i < 256; ++i) {
      const auto port = claim.next_port();
      ports.insert(port);
      ASSERT_TRUE(claim.covers(port)) << port;
    }
    EXPECT_EQ(ports.size(), 257U) << first;
  }
}

TEST(slot_claim, takes_no_port_that_has_no_slot) {
  slot_claim claim(imaginary_netdev());
  EXPECT_FALSE(claim.covers(0xffff));
  EXPECT_EQ(claim.next_port(), 0U);
}

}  // namespace
}  // namespace softverbs::engine
