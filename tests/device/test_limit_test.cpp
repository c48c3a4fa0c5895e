// A test that hangs ends with its name and the stacks of its threads: see test_limit.cpp.

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child_process.hpp"

namespace rdmaxx::device_tests {

namespace {

constexpr const char* hang_on_purpose = "RDMAXX_TEST_HANGS";

[[gnu::noinline]] void hangs_in_a_thread_of_its_own() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

TEST(test_limit, ends_a_test_that_hangs_with_the_stacks_of_its_threads) {
  if (std::getenv(hang_on_purpose) != nullptr) {
    const std::jthread other(hangs_in_a_thread_of_its_own);
    hangs_in_a_thread_of_its_own();
  }
  for (const bool with_gdb : {true, false}) {
    child_process child({"/usr/bin/env", fmt::format("{}=1", hang_on_purpose),
                         "RDMAXX_TEST_LIMIT=1", with_gdb ? "LANG=C" : "PATH=/nonexistent",
                         std::filesystem::read_symlink("/proc/self/exe"),
                         "--gtest_filter=test_limit.ends_a_test_that_hangs*"});
    const auto output = child.output();
    EXPECT_EQ(child.wait(), 128 + SIGABRT) << output;
    EXPECT_THAT(output, ::testing::HasSubstr("test_limit.ends_a_test_that_hangs_with_the_stacks_of_"
                                             "its_threads has taken longer than 1 s"));
    EXPECT_THAT(output, ::testing::HasSubstr("nanosleep")) << "where both threads hang";
  }
}

}  // namespace

}  // namespace rdmaxx::device_tests
