#include <net/netdev.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace softverbs::net;
using testing::Contains;
using testing::IsEmpty;
using testing::Not;

namespace {

std::vector<std::string> texts(const std::vector<gid_row>& table) {
  std::vector<std::string> all(table.size());
  std::ranges::transform(table, all.begin(), [](const gid_row& row) { return row.gid.text(); });
  return all;
}

}  // namespace

TEST(softverbs_netdev, the_loopback_comes_first) {
  const auto all = usable_netdevs();

  ASSERT_THAT(all, Not(IsEmpty()));
  EXPECT_TRUE(all.front().loopback);
  EXPECT_TRUE(all.front().up);
  EXPECT_EQ(all.front().name, "lo");
  EXPECT_GT(all.front().index, 0U);
  EXPECT_GE(all.front().mtu, 1280U);
  EXPECT_EQ(device_name(all.front()), "soft0");
  EXPECT_EQ(std::ranges::count_if(all, &netdev::loopback), 1);
}

TEST(softverbs_netdev, the_loopback_has_the_addresses_of_rxe) {
  const auto table = gid_table(usable_netdevs().at(0));
  const auto all = texts(table);

  ASSERT_THAT(all, Not(IsEmpty()));
  EXPECT_EQ(all.front(), "fe80::200:ff:fe00:0");
  EXPECT_THAT(all, Contains("127.0.0.1").Times(1));
  const bool has_ipv6 = std::ranges::find(all, "::1") != all.end();  // a host may lack it
  ASSERT_EQ(table.front().packets_carry.has_value(), has_ipv6);
  if (has_ipv6) {
    EXPECT_EQ(table.front().packets_carry->text(), "::1");
  }
}

TEST(softverbs_netdev, no_address_stands_twice_and_all_but_the_first_are_carried) {
  for (const auto& device : usable_netdevs()) {
    const auto table = gid_table(device);
    auto all = texts(table);
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << device.name;
    for (std::size_t i = 1; i < table.size(); ++i) {
      EXPECT_EQ(table[i].packets_carry, table[i].gid) << device.name << ' ' << i;
      EXPECT_TRUE(is_local(table[i].gid)) << device.name << ' ' << i;
    }
  }
}

TEST(softverbs_netdev, ipv4_comes_before_ipv6) {
  for (const auto& device : usable_netdevs()) {
    const auto table = gid_table(device);
    const auto is_ipv4 = [](const gid_row& row) { return row.gid.is_ipv4(); };
    EXPECT_TRUE(std::is_partitioned(table.begin() + 1, table.end(), is_ipv4)) << device.name;
  }
}

TEST(softverbs_netdev, the_first_row_follows_from_the_mac) {
  netdev device;
  device.name = "none";
  device.mac = {0x02, 0xfc, 0x00, 0x12, 0x34, 0x56};

  const auto table = gid_table(device);
  ASSERT_EQ(table.size(), 1U);
  EXPECT_EQ(table[0].gid.text(), "fe80::fc:ff:fe12:3456");
  EXPECT_FALSE(table[0].packets_carry);
}

TEST(softverbs_netdev, is_found_by_its_index) {
  for (const auto& device : usable_netdevs()) {
    const auto found = netdev_by_index(device.index);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->name, device.name);
    EXPECT_EQ(found->mac, device.mac);
    EXPECT_EQ(found->mtu, device.mtu);
  }
  EXPECT_FALSE(netdev_by_index(0x7fff'ffff));
}

TEST(softverbs_netdev, gives_its_name_to_the_device) {
  netdev device;
  device.name = "eth0";

  EXPECT_EQ(device_name(device), "soft_eth0");
}

TEST(softverbs_netdev, the_whole_loopback_net_is_local_and_documentation_is_not) {
  address loopback = gid_table(usable_netdevs().at(0)).at(1).gid;
  loopback.raw[15] = 77;
  address elsewhere;
  elsewhere.raw = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

  EXPECT_TRUE(is_local(loopback));
  EXPECT_FALSE(is_local(elsewhere));
}
