// File descriptors of the connection manager and of streams: none survives exec.

#include <array>
#include <cstddef>
#include <map>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "cm_conversation.hpp"
#include "open_descriptors.hpp"
#include "stream_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

class cm_descriptors : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Libraries keep some descriptors of their own from their first use on; they are not leaks.
    const stream_pair first;
  }

  /// How many there are that `before` had not; each is closed in a program that is started.
  static int close_on_exec_since(const std::map<int, std::string>& before) {
    int checked = 0;
    for (const auto& [fd, target] : open_descriptors()) {
      if (before.contains(fd)) continue;
      EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd << " → " << target;
      ++checked;
    }
    return checked;
  }
};

TEST_F(cm_descriptors, of_connections_are_close_on_exec) {
  const auto before = open_descriptors();
  const cm_conversation talk;
  EXPECT_GE(close_on_exec_since(before), 3) << "the listener and two ends have a channel each";
}

TEST_F(cm_descriptors, of_streams_are_close_on_exec) {
  const auto before = open_descriptors();
  stream_pair pair;
  ASSERT_TRUE(pair.client.fd().has_value());
  ASSERT_TRUE(pair.server.fd().has_value());
  pair.client.write_all(std::array<std::byte, 1>{}).value();
  EXPECT_GE(close_on_exec_since(before), 4) << "each end has a channel and a joint descriptor";
}

}  // namespace

}  // namespace rdmaxx::device_tests
