// devices(), open_device(): what is there, and opening it.

#include <algorithm>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

namespace {

class device_list : public device_test {
 protected:
  [[nodiscard]] device listed() const {
    const auto list = devices().value();
    const auto found = std::ranges::find(list, dut.name(), &device::name);
    if (found == list.end()) throw std::runtime_error("the device is not listed");
    return *found;
  }
};

TEST_F(device_list, names_the_device_with_its_guid_and_kind) {
  const auto found = listed();

  EXPECT_EQ(found.guid(), dut.attributes().node_guid);
  EXPECT_EQ(found.transport(), ctx.transport());
  EXPECT_EQ(found.node_type(), dut.is_iwarp() ? node_type::rnic : node_type::channel_adapter);
  EXPECT_NE(describe(found).find(dut.name()), std::string::npos);
}

TEST_F(device_list, an_entry_outlives_its_list_and_opens_the_device) {
  const auto found = listed();

  const auto opened = found.open().value();

  EXPECT_EQ(opened.device_name(), dut.name());
}

TEST_F(device_list, a_device_opens_by_name) {
  const auto opened = open_device(dut.name()).value();

  EXPECT_EQ(opened.device_name(), dut.name());
  EXPECT_NE(opened, ctx) << "each opening is a context of its own";
}

TEST_F(device_list, a_device_opens_by_guid) {
  const auto opened = open_device(dut.attributes().node_guid).value();

  EXPECT_EQ(opened.query_device().value().node_guid, dut.attributes().node_guid);
}

TEST_F(device_list, an_unknown_name_is_an_error_that_lists_those_present) {
  const auto opened = open_device("nosuch0");

  ASSERT_FALSE(opened.has_value());
  EXPECT_TRUE(opened.error() == std::errc::no_such_device);
  EXPECT_NE(opened.error().problem().find("nosuch0"), std::string_view::npos) << opened.error();
  EXPECT_NE(opened.error().hint().find(dut.name()), std::string_view::npos) << opened.error();
}

TEST_F(device_list, an_unknown_guid_is_an_error_that_lists_those_present) {
  const auto opened = open_device(guid{0x1234567890abcdef});

  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().problem().find("0x1234567890abcdef"), std::string_view::npos)
      << opened.error();
  EXPECT_NE(opened.error().hint().find(dut.name()), std::string_view::npos) << opened.error();
}

}  // namespace
}  // namespace rdmaxx::device_tests
