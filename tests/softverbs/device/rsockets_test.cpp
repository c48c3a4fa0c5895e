// rsockets are librdmacm's own: on soft devices there are none, and their functions say so.

#include <cerrno>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>

namespace {

TEST(rsockets, cannot_be_made) {
  testing::internal::CaptureStderr();
  for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
    errno = 0;
    EXPECT_EQ(rsocket(AF_INET, type, 0), -1);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("rsockets need librdmacm's own connection manager"));
}

// The others (rsend, rrecv …) take the number on trust, whatever is behind it: without an rsocket
// no program comes to them.
TEST(rsockets, functions_that_look_for_one_find_none) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  constexpr int nobody = 3;
  const auto expect_bad = [](const char* what, ssize_t outcome) {
    EXPECT_EQ(outcome, -1) << what;
    EXPECT_EQ(errno, EBADF) << what;
  };
  expect_bad("rbind", rbind(nobody, any, sizeof address));
  expect_bad("rlisten", rlisten(nobody, 1));
  expect_bad("raccept", raccept(nobody, nullptr, nullptr));
  expect_bad("rconnect", rconnect(nobody, any, sizeof address));
}

}  // namespace
