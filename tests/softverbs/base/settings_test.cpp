#include <base/settings.hpp>

#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace softverbs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

struct reading {
  settings result;
  std::vector<std::string> problems;
};

reading read(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> problems;
  auto result = settings::from(
      [&](const char* name) -> const char* {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
      },
      [&](std::string_view problem) { problems.emplace_back(problem); });
  return {std::move(result), std::move(problems)};
}

}  // namespace

TEST(softverbs_settings, an_empty_environment_gives_the_defaults) {
  const auto [all, problems] = read({});

  EXPECT_THAT(problems, IsEmpty());
  EXPECT_EQ(all.log, log_level::warning);
  EXPECT_THAT(all.netdevs, IsEmpty());
  EXPECT_TRUE(all.real_devices);
  EXPECT_EQ(all.mtu, 4096U);
  EXPECT_EQ(all.icrc, icrc_use::where_it_may_leave);
  EXPECT_TRUE(all.segmentation_offload);
  EXPECT_THAT(all.capture, IsEmpty());
}

TEST(softverbs_settings, every_variable_is_understood) {
  const auto [all, problems] = read({{"SOFTVERBS_LOG", "debug"},
                                     {"SOFTVERBS_NETDEVS", "lo,eth0"},
                                     {"SOFTVERBS_REAL", "0"},
                                     {"SOFTVERBS_MTU", "1024"},
                                     {"SOFTVERBS_ICRC", "always"},
                                     {"SOFTVERBS_GSO", "off"},
                                     {"SOFTVERBS_SOCKET_BUFFER", "64K"},
                                     {"SOFTVERBS_MAX_QP", "10"},
                                     {"SOFTVERBS_MAX_QP_WR", "11"},
                                     {"SOFTVERBS_MAX_SGE", "12"},
                                     {"SOFTVERBS_MAX_INLINE", "0"},
                                     {"SOFTVERBS_MAX_CQ", "13"},
                                     {"SOFTVERBS_MAX_CQE", "1M"},
                                     {"SOFTVERBS_MAX_MR", "14"},
                                     {"SOFTVERBS_CAPTURE", "packets.pcap"},
                                     {"SOFTVERBS_FAULTS", "loss=0.01"}});

  EXPECT_THAT(problems, IsEmpty());
  EXPECT_EQ(all.log, log_level::debug);
  EXPECT_THAT(all.netdevs, ElementsAre("lo", "eth0"));
  EXPECT_FALSE(all.real_devices);
  EXPECT_EQ(all.mtu, 1024U);
  EXPECT_EQ(all.icrc, icrc_use::always);
  EXPECT_FALSE(all.segmentation_offload);
  EXPECT_EQ(all.socket_buffer_bytes, 65536U);
  EXPECT_EQ(all.max_qp, 10U);
  EXPECT_EQ(all.max_qp_wr, 11U);
  EXPECT_EQ(all.max_sge, 12U);
  EXPECT_EQ(all.max_inline, 0U);
  EXPECT_EQ(all.max_cq, 13U);
  EXPECT_EQ(all.max_cqe, 1U << 20);
  EXPECT_EQ(all.max_mr, 14U);
  EXPECT_EQ(all.capture, "packets.pcap");
  EXPECT_EQ(all.faults, "loss=0.01");
}

TEST(softverbs_settings, a_value_that_is_not_understood_is_reported_and_the_default_holds) {
  const auto [all, problems] =
      read({{"SOFTVERBS_MTU", "1000"}, {"SOFTVERBS_LOG", "loud"}, {"SOFTVERBS_MAX_QP", "-1"}});

  EXPECT_THAT(problems, ElementsAre(HasSubstr("SOFTVERBS_LOG=loud"),
                                    HasSubstr("SOFTVERBS_MTU=1000 is ignored: expected 256"),
                                    HasSubstr("SOFTVERBS_MAX_QP=-1")));
  EXPECT_EQ(all.mtu, settings{}.mtu);
  EXPECT_EQ(all.log, settings{}.log);
  EXPECT_EQ(all.max_qp, settings{}.max_qp);
}

TEST(softverbs_settings, an_empty_value_means_not_set) {
  EXPECT_THAT(read({{"SOFTVERBS_MTU", ""}, {"SOFTVERBS_NETDEVS", ""}}).problems, IsEmpty());
}

TEST(softverbs_settings, numbers_that_are_none_are_refused) {
  settings all;
  for (const auto* const text : {"", "K", "12x", "1G", " 1", "1 ", "0x10", "+5", "4294967296",
                                 "4194304K", "99999999999999999999", "1KK"}) {
    EXPECT_FALSE(all.assign("MAX_MR", text)) << text;
  }
  EXPECT_EQ(all.max_mr, settings{}.max_mr);
}

TEST(softverbs_settings, numbers_outside_their_range_are_refused) {
  settings all;

  EXPECT_FALSE(all.assign("MAX_QP", "0"));
  EXPECT_TRUE(all.assign("MAX_QP", "16M"));
  EXPECT_FALSE(all.assign("MAX_QP", "16777217"));
  EXPECT_FALSE(all.assign("SOCKET_BUFFER", "1K"));
  EXPECT_TRUE(all.assign("SOCKET_BUFFER", "8m"));
  EXPECT_EQ(all.socket_buffer_bytes, 8U << 20);
}

TEST(softverbs_settings, unknown_names_are_refused) {
  settings all;

  EXPECT_FALSE(all.assign("COLOUR", "blue"));
  EXPECT_FALSE(all.assign("mtu", "1024"));
}

TEST(softverbs_settings, commas_alone_name_no_netdev) {
  settings all;

  EXPECT_TRUE(all.assign("NETDEVS", ",eth0,,lo,"));
  EXPECT_THAT(all.netdevs, ElementsAre("eth0", "lo"));
  EXPECT_TRUE(all.assign("TRUSTED_USERS", "1000,1001"));
  EXPECT_THAT(all.trusted_users, ElementsAre(1000U, 1001U));
  EXPECT_FALSE(all.assign("TRUSTED_USERS", "1000,alice"));
  EXPECT_THAT(all.trusted_users, ElementsAre(1000U, 1001U));
}

// The process's settings are read once, so these look at processes that start afresh.
class softverbs_process_settings : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(softverbs_process_settings, what_the_program_sets_wins_over_the_environment) {
  const auto act = [] {
    ::setenv("SOFTVERBS_MTU", "512", 1);    // NOLINT(concurrency-mt-unsafe)
    ::setenv("SOFTVERBS_MAX_QP", "77", 1);  // NOLINT(concurrency-mt-unsafe)
    const bool done = settings::set("MTU", "2048") == settings::change::done;
    const auto& all = settings::get();
    std::exit(done && all.mtu == 2048 && all.max_qp == 77 ? 0
                                                          : 1);  // NOLINT(concurrency-mt-unsafe)
  };
  EXPECT_EXIT(act(), testing::ExitedWithCode(0), "^$");
}

TEST_F(softverbs_process_settings, cannot_be_set_after_their_first_use) {
  const auto act = [] {
    static_cast<void>(settings::get());
    const bool late = settings::set("MTU", "2048") == settings::change::too_late;
    const bool bad = settings::set("MTU", "1") == settings::change::not_understood;
    std::exit(late && bad && settings::get().mtu == 4096 ? 0 : 1);  // NOLINT(concurrency-mt-unsafe)
  };
  EXPECT_EXIT(act(), testing::ExitedWithCode(0), "^$");
}

TEST_F(softverbs_process_settings, report_bad_values_on_standard_error) {
  const auto act = [] {
    ::setenv("SOFTVERBS_ICRC", "never", 1);  // NOLINT(concurrency-mt-unsafe)
    static_cast<void>(settings::get());
    std::exit(0);  // NOLINT(concurrency-mt-unsafe)
  };
  EXPECT_EXIT(act(), testing::ExitedWithCode(0),
              "^softverbs\\[[0-9]+\\]: warning: SOFTVERBS_ICRC=never is ignored: expected auto or "
              "always\n$");
}
