// Soft devices beside real ones: which library a call reaches.

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <softverbs/softverbs.h>

#include "imaginary_libibverbs.hpp"

#undef ibv_query_port
#undef ibv_reg_mr

extern "C" int ibv_read_sysfs_file(const char* folder, const char* file, char* buffer,
                                   std::size_t bytes);

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

namespace {

class softverbs_abi : public testing::Test {
 protected:
  void SetUp() override { imaginary::now() = {}; }

  static std::vector<std::string> names(ibv_device* const* list) {
    std::vector<std::string> all;
    for (; *list != nullptr; ++list) all.emplace_back(ibv_get_device_name(*list));
    return all;
  }
};

}  // namespace

TEST_F(softverbs_abi, real_devices_come_first_and_then_the_soft_ones) {
  int count = 0;
  auto** const list = ibv_get_device_list(&count);

  ASSERT_NE(list, nullptr);
  const auto all = names(list);
  EXPECT_EQ(all.size(), static_cast<std::size_t>(count));
  ASSERT_GE(all.size(), 3U);
  EXPECT_EQ(all[0], "imaginary0");
  EXPECT_EQ(all[1], "imaginary1");
  EXPECT_EQ(all[2], "soft0");
  ibv_free_device_list(list);
}

TEST_F(softverbs_abi, the_real_list_is_given_back_with_the_merged_one) {
  auto** const one = ibv_get_device_list(nullptr);
  auto** const two = ibv_get_device_list(nullptr);
  EXPECT_EQ(imaginary::now().lists_out, 2);

  ibv_free_device_list(one);
  EXPECT_EQ(imaginary::now().lists_out, 1);
  ibv_free_device_list(two);
  EXPECT_EQ(imaginary::now().lists_out, 0);
}

TEST_F(softverbs_abi, a_kernel_without_rdma_has_no_real_devices_and_that_is_no_error) {
  imaginary::now().error = ENOSYS;
  errno = 0;
  auto** const list = ibv_get_device_list(nullptr);

  EXPECT_EQ(errno, 0);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(names(list).at(0), "soft0");
  ibv_free_device_list(list);
  EXPECT_EQ(imaginary::now().lists_out, 0);
}

TEST_F(softverbs_abi, the_real_library_sees_none_but_its_own_devices) {
  EXPECT_NE(ibv_import_device(0), nullptr);
  EXPECT_EQ(imaginary::now().lists_out, 0);
}

TEST_F(softverbs_abi, real_objects_go_to_the_real_library) {
  auto** const list = ibv_get_device_list(nullptr);
  auto* const context = ibv_open_device(list[0]);
  auto* const pd = ibv_alloc_pd(context);
  std::array<std::byte, 16> memory{};
  auto* const mr = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_RELAXED_ORDERING);

  EXPECT_EQ(ibv_get_device_guid(list[0]), 7U);
  EXPECT_EQ(context->device, list[0]);
  EXPECT_EQ(mr->context, context);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_close_device(context), 0);
  EXPECT_THAT(
      imaginary::now().calls,
      ElementsAre("open", "alloc_pd", StartsWith("reg_mr 16 1048576"), "dealloc_pd", "close"));
  ibv_free_device_list(list);
}

TEST_F(softverbs_abi, the_old_query_port_is_handed_on) {
  auto** const list = ibv_get_device_list(nullptr);
  auto* const context = ibv_open_device(list[0]);
  ibv_port_attr attributes{};

  EXPECT_EQ(ibv_query_port(context, 3, reinterpret_cast<_compat_ibv_port_attr*>(&attributes)), 0);
  EXPECT_THAT(imaginary::now().calls, ElementsAre("open", "query_port 3"));
  EXPECT_EQ(attributes.flags, 0xab);
  EXPECT_EQ(attributes.port_cap_flags2, 0);
  ibv_free_device_list(list);
}

TEST_F(softverbs_abi, fork_is_the_concern_of_real_devices_alone) {
  EXPECT_EQ(ibv_fork_init(), ENOSYS);
  EXPECT_THAT(imaginary::now().calls, ElementsAre("fork_init"));

  imaginary::now() = {.device_count = 0, .calls = {}};
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
  EXPECT_THAT(imaginary::now().calls, IsEmpty());
}

TEST_F(softverbs_abi, soft_devices_have_the_files_that_programs_read) {
  auto** const list = ibv_get_device_list(nullptr);
  const char* const folder = &list[2]->ibdev_path[0];
  std::array<char, 64> buffer{};

  EXPECT_EQ(ibv_read_sysfs_file(folder, "board_id", buffer.data(), buffer.size()), 9);
  EXPECT_STREQ(buffer.data(), "softverbs");
  EXPECT_EQ(ibv_read_sysfs_file(folder, "fw_ver", buffer.data(), 4), 3);
  EXPECT_EQ(std::string_view(buffer.data()), std::string_view(softverbs_version()).substr(0, 3));
  errno = 0;
  EXPECT_EQ(ibv_read_sysfs_file(folder, "no_such_file", buffer.data(), buffer.size()), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_THAT(imaginary::now().calls, IsEmpty());

  EXPECT_EQ(ibv_read_sysfs_file("/sys/x", "y", buffer.data(), buffer.size()), -1);
  EXPECT_THAT(imaginary::now().calls, ElementsAre("read /sys/x/y"));
  ibv_free_device_list(list);
}

TEST_F(softverbs_abi, settings_can_be_made_until_the_library_is_used) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto act = [] {
    const bool refused = softverbs_set("REAL", "perhaps") == EINVAL &&
                         softverbs_set("COLOUR", "blue") == EINVAL &&
                         softverbs_set(nullptr, nullptr) == EINVAL;
    const bool done = softverbs_set("SOFTVERBS_REAL", "0") == 0;
    auto** const list = ibv_get_device_list(nullptr);
    const bool hidden = std::string_view(ibv_get_device_name(list[0])) == "soft0";
    const bool late = softverbs_set("REAL", "1") == EBUSY;
    ibv_free_device_list(list);
    std::exit(refused && done && hidden && late ? 0 : 1);  // NOLINT(concurrency-mt-unsafe)
  };
  EXPECT_EXIT(act(), testing::ExitedWithCode(0), "^$");
}
