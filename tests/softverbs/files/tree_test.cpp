#include <files/tree.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softverbs::files {
namespace {

using enum tree::place::kind;
using testing::ElementsAre;
using testing::IsSupersetOf;

net::address ipv4(std::uint8_t last) {
  net::address address;
  address.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
  return address;
}

device example(std::string name, std::string netdev, std::uint32_t minor) {
  device made;
  made.dev_name = "uverbs_" + name;
  made.name = std::move(name);
  made.minor = minor;
  made.guid = 0x0200'0073'7600'0001;
  made.netdev = std::move(netdev);
  made.port.state = IBV_PORT_ACTIVE;
  made.port.phys_state = 5;
  made.port.active_width = 2;
  made.port.active_speed = 32;
  made.port.port_cap_flags = IBV_PORT_CM_SUP;
  made.gids = {ipv4(1), ipv4(2)};
  made.processors = 40;
  made.counters = {{"port_xmit_packets", 17}};
  made.hw_counters = {{"sent_pkts", 18}};
  return made;
}

class file_tree : public testing::Test {
 protected:
  [[nodiscard]] std::string text(std::string_view path) const {
    const auto place = tree_.find(path, true);
    return place.found == here && place.what->kind == node_kind::attribute ? place.what->text
                                                                           : "no attribute";
  }
  [[nodiscard]] tree::place::kind outcome(std::string_view path, bool follow = true) const {
    return tree_.find(path, follow).found;
  }
  [[nodiscard]] std::vector<std::string> names(std::string_view path) const {
    std::vector<std::string> found;
    for (const auto& [name, what] : tree_.list(path)) found.push_back(name);
    return found;
  }

  std::array<device, 2> devices_{example("soft0", "lo", 1), example("soft_eth0", "eth0", 2)};
  tree tree_{devices_};
};

TEST_F(file_tree, lists_the_devices_by_their_names_and_by_those_of_their_nodes) {
  EXPECT_THAT(names("/sys/class/infiniband"), ElementsAre("soft0", "soft_eth0"));
  EXPECT_THAT(names("/sys/class/infiniband_verbs"),
              ElementsAre("abi_version", "uverbs_soft0", "uverbs_soft_eth0"));
  EXPECT_THAT(names("/dev/infiniband"), ElementsAre("uverbs_soft0", "uverbs_soft_eth0"));
  EXPECT_THAT(names("/sys/class/infiniband/soft0"),
              IsSupersetOf({"device", "fw_ver", "node_guid", "node_type", "ports"}));
  EXPECT_THAT(names("/sys/class/infiniband/soft0/ports"), ElementsAre("1"));
  EXPECT_THAT(names("/sys/class/infiniband/soft0/ports/1/gid_attrs"),
              ElementsAre("ndevs", "types"));
  EXPECT_THAT(names("/sys/class/infiniband/soft0/ports/1/gids"), ElementsAre("0", "1"));
}

TEST_F(file_tree, writes_attributes_as_the_kernel_does) {
  const std::string device = "/sys/class/infiniband/soft_eth0";
  EXPECT_EQ(text(device + "/node_type"), "1: CA\n");
  EXPECT_EQ(text(device + "/node_guid"), "0200:0073:7600:0001\n");
  EXPECT_EQ(text(device + "/device/numa_node"), "-1\n");
  EXPECT_EQ(text(device + "/device/local_cpus"), "ff,ffffffff\n");
  EXPECT_EQ(text(device + "/device/local_cpulist"), "0-39\n");
  const auto port = device + "/ports/1";
  EXPECT_EQ(text(port + "/state"), "4: ACTIVE\n");
  EXPECT_EQ(text(port + "/phys_state"), "5: LinkUp\n");
  EXPECT_EQ(text(port + "/rate"), "100 Gb/sec (4X EDR)\n");
  EXPECT_EQ(text(port + "/cap_mask"), "0x00010000\n");
  EXPECT_EQ(text(port + "/link_layer"), "Ethernet\n");
  EXPECT_EQ(text(port + "/pkeys/0"), "0xffff\n");
  EXPECT_EQ(text(port + "/gids/1"), "0000:0000:0000:0000:0000:ffff:0a00:0002\n");
  EXPECT_EQ(text(port + "/gid_attrs/types/1"), "RoCE v2\n");
  EXPECT_EQ(text(port + "/gid_attrs/ndevs/1"), "eth0\n");
  EXPECT_EQ(text(port + "/counters/port_xmit_packets"), "17\n");
  EXPECT_EQ(text(port + "/hw_counters/sent_pkts"), "18\n");
  EXPECT_EQ(text("/sys/class/infiniband_verbs/abi_version"), "6\n");
  EXPECT_EQ(text("/sys/class/infiniband_verbs/uverbs_soft0/ibdev"), "soft0\n");
  EXPECT_EQ(text("/sys/class/infiniband_verbs/uverbs_soft_eth0/dev"), "231:2\n");
}

TEST_F(file_tree, writes_rates_of_every_width) {
  devices_[0].port.active_width = 1;
  devices_[0].port.active_speed = 1;
  devices_[1].port.active_speed = 16;
  const tree other(devices_);
  EXPECT_EQ(other.find("/sys/class/infiniband/soft0/ports/1/rate", true).what->text,
            "2.5 Gb/sec (1X SDR)\n");
  EXPECT_EQ(other.find("/sys/class/infiniband/soft_eth0/ports/1/rate", true).what->text,
            "56 Gb/sec (4X FDR)\n");
}

TEST_F(file_tree, has_character_devices) {
  const auto place = tree_.find("/dev/infiniband/uverbs_soft0", true);
  ASSERT_EQ(place.found, here);
  EXPECT_EQ(place.what->kind, node_kind::character_device);
  EXPECT_EQ(place.what->major, 231U);
  EXPECT_EQ(place.what->minor, 1U);
}

TEST_F(file_tree, follows_symlinks_within_and_out_of_the_tree) {
  const std::string node = "/sys/class/infiniband_verbs/uverbs_soft_eth0";
  EXPECT_EQ(text(node + "/device/numa_node"), "-1\n");
  EXPECT_EQ(tree_.find(node + "/device", true).path, "/sys/class/infiniband/soft_eth0/device");
  EXPECT_EQ(tree_.find(node + "/device", false).what->kind, node_kind::symlink);
  EXPECT_EQ(tree_.find(node + "/device/", false).what->kind, node_kind::directory);

  const std::string link = "/sys/class/infiniband/soft_eth0/device/net/eth0";
  EXPECT_EQ(tree_.find(link, false).what->text, "../../../../net/eth0");
  auto place = tree_.find(link + "/mtu", true);
  EXPECT_EQ(place.found, elsewhere);
  EXPECT_EQ(place.path, "/sys/class/net/eth0/mtu");
  EXPECT_EQ(tree_.find("/sys/class/infiniband/soft0/device/infiniband/soft0", true).path,
            "/sys/class/infiniband/soft0");
  EXPECT_EQ(text("/sys/class/infiniband/soft0/device/infiniband_verbs/uverbs_soft0/ibdev"),
            "soft0\n");
}

TEST_F(file_tree, understands_dots_and_slashes) {
  EXPECT_EQ(text("/sys/class/infiniband/../infiniband//soft0/./node_type"), "1: CA\n");
  EXPECT_EQ(text("/sys/class/infiniband/soft0/../soft_eth0/ports/1/gid_attrs/ndevs/0"), "eth0\n");
  EXPECT_EQ(tree_.find("/sys/class/infiniband/soft0/", true).path, "/sys/class/infiniband/soft0");
  EXPECT_EQ(outcome("/sys/class/infiniband/soft0/node_type/"), not_a_directory);
  EXPECT_EQ(outcome("/sys/class/infiniband/soft0/node_type/more"), not_a_directory);
  EXPECT_EQ(outcome("/sys/class/infiniband/soft0/nothing"), missing);
  EXPECT_EQ(outcome("/sys/class/infiniband/soft0/ports/2/state"), missing);
}

TEST_F(file_tree, leaves_to_the_kernel_what_is_the_kernels) {
  for (const std::string path :
       {"/sys/class/infiniband/mlx5_0", "/sys/class/infiniband/mlx5_0/ports/1/state",
        "/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm", "/sys/class/infiniband_mad",
        "/sys/class/infiniband_mad/abi_version", "/dev/infiniband0"}) {
    const auto place = tree_.find(path, true);
    EXPECT_EQ(place.found, elsewhere) << path;
    EXPECT_EQ(place.path, path);
  }
  EXPECT_EQ(tree_.find("/sys/class/infiniband/../net/eth0", true).path, "/sys/class/net/eth0");
  EXPECT_EQ(tree_.find("/sys/class/infiniband/..", true).path, "/sys/class");
  EXPECT_EQ(tree_.find("/dev/infiniband/../../../..", true).path, "/");
  EXPECT_TRUE(tree_.find("/sys/class/infiniband", true).what->shared);
  EXPECT_TRUE(tree_.find("/sys/class/infiniband_verbs/abi_version", true).what->shared);
  EXPECT_FALSE(tree_.find("/sys/class/infiniband/soft0", true).what->shared);
}

TEST(file_names, are_recognised_by_their_beginning) {
  for (const char* path :
       {"/sys/class/infiniband", "/sys/class/infiniband/soft0", "/sys/class/infiniband_verbs/",
        "/dev/infiniband", "/dev/infiniband/uverbs_soft0"}) {
    EXPECT_TRUE(may_be_in_tree(path)) << path;
  }
  for (const char* path : {"", "/", "/s", "/sys", "/sys/class/net/lo", "/sys/class/infiniban",
                           "/dev", "/dev/null", "/dev/infini", "sys/class/infiniband", "/etc"}) {
    EXPECT_FALSE(may_be_in_tree(path)) << path;
  }
  EXPECT_FALSE(may_be_in_tree(nullptr));
}

TEST(file_names, tell_of_which_device_they_are) {
  EXPECT_EQ(device_part("/sys/class/infiniband"), "");
  EXPECT_EQ(device_part("/sys/class/infiniband/"), "");
  EXPECT_EQ(device_part("/sys/class/infiniband/soft0"), "soft0");
  EXPECT_EQ(device_part("/sys/class/infiniband/soft0/ports/1"), "soft0");
  EXPECT_EQ(device_part("/sys/class/infiniband_verbs/uverbs_soft0/dev"), "uverbs_soft0");
  EXPECT_EQ(device_part("/dev/infiniband/uverbs_soft0"), "uverbs_soft0");
  EXPECT_EQ(device_part("/dev/null"), "");
}

}  // namespace
}  // namespace softverbs::files
