// File descriptors: none is leaked, none survives exec, and a fork does no harm.

#include <array>
#include <cstddef>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "child_process.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"
#include "open_descriptors.hpp"

namespace rdmaxx::device_tests {

namespace {

class descriptors : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Libraries keep some descriptors of their own from their first use on; they are not leaks.
    const connected_pair first({.with_channel = true});
  }
};

TEST_F(descriptors, are_closed_with_the_objects_they_belong_to) {
  const auto before = open_descriptors();
  for (int i = 0; i < 10; ++i) {
    const connected_pair pair({.with_channel = true});
    const auto memory = pair.a.shared_memory(4096);
    const auto events = pair.a.ctx.async_events().value();
    EXPECT_GT(open_descriptors().size(), before.size());
  }

  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(descriptors, are_closed_when_opening_fails) {
  const auto before = open_descriptors();

  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(open_device("nosuch0").has_value());
    EXPECT_FALSE(pick_device({.name = "nosuch0"}).has_value());
    EXPECT_FALSE(pick_device({.subnet = "203.0.113.0/24"}).has_value());
    EXPECT_FALSE(pick_device({.name = device_under_test::get().name(),
                              .route_to = device_under_test::get().address_elsewhere()})
                     .has_value());
  }

  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(descriptors, are_all_close_on_exec) {
  const auto before = open_descriptors();
  const auto ctx = device_under_test::get().open();
  const auto side = unconnected_side(ctx, {.with_channel = true});

  int checked = 0;
  for (const auto& [fd, target] : open_descriptors()) {
    if (before.contains(fd)) continue;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd << " → " << target;
    ++checked;
  }

  // The connection manager keeps a device open once it has met it, and a soft one has one socket.
  EXPECT_GE(checked, 2) << "the device's events and the channel";
}

TEST_F(descriptors, do_not_reach_a_program_that_is_started) {
  const connected_pair pair({.with_channel = true});

  child_process child({"/bin/ls", "-l", "/proc/self/fd"});
  const auto output = child.output();

  EXPECT_EQ(child.wait(), 0) << output;
  EXPECT_NE(output.find("0 -> "), std::string::npos) << output;
  EXPECT_EQ(output.find("infiniband"), std::string::npos) << output;
}

TEST_F(descriptors, and_memory_of_the_parent_are_not_disturbed_by_a_fork) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(8192);
  const auto into = pair.b.local_memory(8192);
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);

  // The child lives while the parent works on, so that their pages are shared; it uses no RDMA
  // object.
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(pipe[1]);
    char end = 0;
    ::_exit(::read(pipe[0], &end, 1) == 0 ? 0 : 1);
  }
  for (std::uint64_t round = 1; round <= 5; ++round) {
    fill_pattern(from.bytes(), round);
    pair.b.qp.post(recv_wr{.into = into.scatter()}).value();
    pair.a.qp.post(send_wr{.from = from.gather()}).value();
    wait_for_success(pair.b.recv_cq);
    wait_for_success(pair.a.send_cq);
    EXPECT_TRUE(same_bytes(into.bytes(), from.bytes())) << "round " << round;
    if (round == 3) {
      ::close(pipe[1]);
      int status = -1;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
  }
  ::close(pipe[0]);
}

}  // namespace
}  // namespace rdmaxx::device_tests
