#include <rdmaxx/core/log.hpp>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/core/captured_log.hpp"

using namespace rdmaxx;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

class default_log : public testing::Test {
 protected:
  void SetUp() override { set_log_sink({}); }
  void TearDown() override {
    set_log_sink({});
    set_log_threshold(log_level::warning);
  }

  template <class Action>
  static std::string standard_error_of(Action action) {
    testing::internal::CaptureStderr();
    action();
    return testing::internal::GetCapturedStderr();
  }
};

/// What a fresh process writes for one message of each level.
void log_one_of_each_and_exit() {
  log(log_level::debug, "a");
  log(log_level::info, "b");
  log(log_level::warning, "c");
  log(log_level::error, "d");
  std::exit(0);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

TEST(log, goes_to_the_sink_with_its_level) {
  const captured_log captured;

  log(log_level::info, "hello");
  log(log_level::error, "alas");

  EXPECT_THAT(captured.lines(), ElementsAre("info: hello", "error: alas"));
}

TEST(log, stays_silent_below_the_threshold) {
  const captured_log captured;
  set_log_threshold(log_level::warning);

  log(log_level::debug, "no");
  log(log_level::info, "no");
  log(log_level::warning, "yes");
  log(log_level::error, "yes");

  EXPECT_EQ(log_threshold(), log_level::warning);
  EXPECT_THAT(captured.lines(), ElementsAre("warning: yes", "error: yes"));
}

TEST(log, off_silences_everything) {
  const captured_log captured;
  set_log_threshold(log_level::off);

  log(log_level::error, "no");
  log(log_level::off, "not a level to log at");

  EXPECT_THAT(captured.lines(), IsEmpty());
}

TEST(log, a_sink_may_throw_and_the_next_message_still_arrives) {
  const captured_log restores_the_default;
  int calls = 0;
  set_log_sink([&](log_level, std::string_view) {
    if (++calls == 1) throw std::runtime_error("the disk is full");
  });

  log(log_level::error, "one");
  log(log_level::error, "two");

  EXPECT_EQ(calls, 2);
}

TEST(log, a_sink_may_replace_itself_and_log) {
  const captured_log restores_the_default;
  std::vector<std::string> seen;
  set_log_sink([&](log_level, std::string_view message) {
    seen.emplace_back(message);
    set_log_sink([&](log_level, std::string_view later) {
      seen.push_back("second sink: " + std::string(later));
    });
    log(log_level::error, "from the sink");
  });

  log(log_level::error, "first");

  EXPECT_THAT(seen, ElementsAre("first", "second sink: from the sink"));
}

TEST(log, threads_may_log_while_the_sink_is_replaced) {
  const captured_log restores_the_default;
  std::atomic<int> arrived = 0;
  const auto count = [&](log_level, std::string_view) { ++arrived; };
  set_log_sink(count);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([] {
        for (int n = 0; n < 500; ++n) log(log_level::error, "message");
      });
    }
    for (int n = 0; n < 100; ++n) set_log_sink(count);
  }
  EXPECT_EQ(arrived, 1500);
}

TEST_F(default_log, is_one_line_on_standard_error) {
  EXPECT_EQ(standard_error_of([] { log(log_level::error, "alas"); }), "rdmaxx: error: alas\n");
}

TEST_F(default_log, an_empty_sink_restores_it) {
  set_log_sink([](log_level, std::string_view) {});
  set_log_sink({});

  EXPECT_EQ(standard_error_of([] { log(log_level::warning, "back"); }), "rdmaxx: warning: back\n");
}

TEST_F(default_log, says_nothing_below_the_threshold) {
  set_log_threshold(log_level::error);

  EXPECT_EQ(standard_error_of([] { log(log_level::warning, "no"); }), "");
}

// The environment is read at first use, so these look at processes that start afresh.
class log_environment : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ::setenv("RDMAXX_LOG", GetParam().first, 1);  // NOLINT(concurrency-mt-unsafe)
  }
  void TearDown() override { ::unsetenv("RDMAXX_LOG"); }  // NOLINT(concurrency-mt-unsafe)
};

TEST_P(log_environment, sets_the_threshold) {
  EXPECT_EXIT(log_one_of_each_and_exit(), testing::ExitedWithCode(0), GetParam().second);
}

INSTANTIATE_TEST_SUITE_P(
    levels, log_environment,
    testing::Values(std::pair("debug", "^rdmaxx: debug: a\nrdmaxx: info: b\n"),
                    std::pair("info", "^rdmaxx: info: b\nrdmaxx: warning: c\n"),
                    std::pair("warning", "^rdmaxx: warning: c\nrdmaxx: error: d\n$"),
                    std::pair("error", "^rdmaxx: error: d\n$"), std::pair("off", "^$"),
                    std::pair("nonsense", "^rdmaxx: warning: c\nrdmaxx: error: d\n$")),
    [](const auto& one) { return std::string(one.param.first); });
