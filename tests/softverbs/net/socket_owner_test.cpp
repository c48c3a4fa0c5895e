#include <net/socket_owner.hpp>

#include <sstream>
#include <string>

#include <base/settings.hpp>
#include <gtest/gtest.h>
#include <net/udp_socket.hpp>
#include <unistd.h>

namespace softverbs::net {
namespace {

class socket_owner_test : public testing::TestWithParam<bool> {};

TEST_P(socket_owner_test, the_kernel_knows_whose_a_port_is) {
  const auto own = address::loopback(GetParam());
  const auto socket = udp_socket::bind(own, 0, 1);
  if (socket == nullptr) GTEST_SKIP() << "no loopback address of this family";
  EXPECT_TRUE(owns_udp_socket(::geteuid(), own, socket->port()));
  EXPECT_FALSE(owns_udp_socket(::geteuid() + 1, own, socket->port()));
  EXPECT_FALSE(owns_udp_socket(::geteuid(), address::any(GetParam()), socket->port()));
}

TEST_P(socket_owner_test, a_port_that_nobody_has_is_nobodys) {
  const auto own = address::loopback(GetParam());
  EXPECT_FALSE(owns_udp_socket(::geteuid(), own, 1));
}

INSTANTIATE_TEST_SUITE_P(both_families, socket_owner_test, testing::Bool());

TEST(socket_owner, lines_that_make_no_sense_say_nothing) {
  for (const std::string line :
       {"", " ", "1:", "1: 0100007F:1F90", "1: 0100007F:1F90 0 07 0 0 0 x",
        "1: 0100007F:1F90 0 07 0 0 0 -1", "1: 0100007F:1F90 0 07 0 0 0 99999999999"}) {
    std::istringstream table("sl local_address ...\n" + line + "\n");
    EXPECT_FALSE(owns_udp_socket(table, 0, address::loopback(true), 8080)) << line;
  }
}

TEST(socket_owner, a_port_of_two_users_is_neithers) {
  const std::string line =
      "1: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000 ";
  std::istringstream one("head\n" + line + "1000 0 1\n");
  EXPECT_TRUE(owns_udp_socket(one, 1000, address::loopback(true), 8080));
  std::istringstream two("head\n" + line + "1000 0 1\n" + line + "1001 0 2\n");
  EXPECT_FALSE(owns_udp_socket(two, 1000, address::loopback(true), 8080));
}

}  // namespace
}  // namespace softverbs::net
