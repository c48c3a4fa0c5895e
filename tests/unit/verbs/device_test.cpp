#include <rdmaxx/verbs/device.hpp>

#include <string>
#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/pick_device.hpp>

using namespace rdmaxx;
using testing::AllOf;
using testing::HasSubstr;

namespace {

/// The error on a machine without RDMA. Where there are devices, other errors are correct.
class without_devices : public testing::Test {
 protected:
  void SetUp() override {
    if (!devices().value().empty()) GTEST_SKIP() << "this machine has RDMA devices";
  }
};

}  // namespace

TEST(devices, no_rdma_at_all_is_an_empty_list_and_not_a_failure) {
  EXPECT_TRUE(devices().has_value());
}

TEST_F(without_devices, opening_one_by_name_says_how_to_get_one) {
  const auto failed = open_device("rxe0");

  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::no_such_device);
  EXPECT_EQ(failed.error().operation(), "open_device");
  EXPECT_THAT(failed.error().problem(), HasSubstr("no RDMA device"));
  EXPECT_THAT(failed.error().hint(), AllOf(HasSubstr("rdma link add"), HasSubstr("rdmaxx soft")));
}

TEST_F(without_devices, opening_one_by_guid_says_how_to_get_one) {
  EXPECT_THAT(open_device(guid(1)).error().hint(), HasSubstr("rdma link add"));
}

TEST_F(without_devices, picking_one_says_how_to_get_one) {
  EXPECT_THAT(pick_device().error().hint(), HasSubstr("rdma link add"));
}

TEST(pick_device, malformed_criteria_are_refused_first) {
  EXPECT_THAT(pick_device({.port = std::uint8_t{0}}).error().hint(), HasSubstr("count from 1"));
  EXPECT_EQ(pick_device({.subnet = "10.0.0.0/99"}).error().operation(), "subnet::parse");
  EXPECT_EQ(pick_device({.route_to = "nowhere"}).error().operation(), "gid::parse");
}

TEST(pick_device, a_query_is_described_by_its_criteria) {
  EXPECT_EQ(describe(device_query{}), "any device");
  EXPECT_EQ(
      describe(device_query{
          .name = "rxe0", .guid = guid(0x12), .subnet = "10.0.0.0/8", .port = std::uint8_t{1}}),
      "name rxe0, guid 0x12, subnet 10.0.0.0/8, port 1");
}
