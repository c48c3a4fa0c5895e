#include <net/credentials.hpp>

#include <array>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::net {
namespace {

class credentials_test : public testing::Test {
 protected:
  credentials_test() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends_.data()), 0);
  }
  ~credentials_test() override {
    for (const int fd : ends_) ::close(fd);
  }

  std::optional<credentials> credentials_of_a_message() {
    EXPECT_EQ(::send(ends_[0], "x", 1, 0), 1);
    char byte = 0;
    iovec part{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) std::array<unsigned char, credentials_control_bytes> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    EXPECT_EQ(::recvmsg(ends_[1], &message, 0), 1);
    return credentials_in(message);
  }

  std::array<int, 2> ends_{};
};

TEST_F(credentials_test, the_kernel_tells_who_is_connected) {
  const auto peer = credentials_of_peer(ends_[0]);
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->process, ::getpid());
  EXPECT_EQ(peer->user, ::geteuid());
}

TEST_F(credentials_test, a_socket_that_is_not_connected_has_no_peer) {
  const int alone = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  EXPECT_FALSE(credentials_of_peer(alone));
  ::close(alone);
}

TEST_F(credentials_test, a_message_tells_its_sender_only_where_that_was_asked_for) {
  EXPECT_FALSE(credentials_of_a_message());
  ASSERT_TRUE(ask_for_credentials(ends_[1]));
  const auto sender = credentials_of_a_message();
  ASSERT_TRUE(sender);
  EXPECT_EQ(sender->process, ::getpid());
  EXPECT_EQ(sender->user, ::geteuid());
}

TEST_F(credentials_test, the_own_user_is_trusted_and_no_other) {
  EXPECT_TRUE(are_trusted({.process = 1, .user = ::geteuid()}));
  EXPECT_FALSE(are_trusted({.process = 1, .user = ::geteuid() + 1}));
}

}  // namespace
}  // namespace softverbs::net
