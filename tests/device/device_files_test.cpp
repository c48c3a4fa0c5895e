// Programs find devices by their files, too: those of the kernel and those of softverbs are listed
// together.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

namespace {

using ::testing::Contains;

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(folder))
    names.push_back(each.path().filename());
  return names;
}

std::string first_line(const std::filesystem::path& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

TEST(device_files, of_every_device_are_in_one_listing) {
  int count = 0;
  auto** const list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  const std::filesystem::path classes = "/sys/class";
  for (int i = 0; i < count; ++i) {
    const std::string name = ibv_get_device_name(list[i]);
    const std::string node = &list[i]->dev_name[0];
    SCOPED_TRACE(name);
    EXPECT_THAT(names_in(classes / "infiniband"), Contains(name));
    EXPECT_THAT(names_in(classes / "infiniband_verbs"), Contains(node));
    EXPECT_THAT(names_in("/dev/infiniband"), Contains(node));
    EXPECT_TRUE(std::filesystem::is_character_file("/dev/infiniband/" + node));
    EXPECT_EQ(first_line(classes / "infiniband_verbs" / node / "ibdev"), name);
  }
  ibv_free_device_list(list);
  EXPECT_THAT(names_in(classes / "infiniband"), Contains(device_under_test::get().name()));
}

}  // namespace

}  // namespace rdmaxx::device_tests
