// Ports below 1024 are for those who may bind them, as with the kernel's rdma_cm.

#include <cerrno>
#include <cstdint>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include "forked_peer.hpp"

namespace softverbs::device_tests {
namespace {

constexpr uid_t nobody = 65534;

/// 0, or the errno of binding that port of 127.0.0.1.
int refusal_of(std::uint16_t port) {
  auto* const events = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  if (events == nullptr || rdma_create_id(events, &id, nullptr, RDMA_PS_TCP) != 0) return EPROTO;
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_port = htons(port);
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int refusal = rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&own)) == 0 ? 0 : errno;
  rdma_destroy_id(id);
  rdma_destroy_event_channel(events);
  return refusal;
}

/// The same as a user without any capability.
int refusal_for_nobody(std::uint16_t port) {
  const forked_peer child([port](const auto& parent) {
    parent.tell(::setresuid(nobody, nobody, nobody) == 0 ? refusal_of(port) : EPROTO);
  });
  return child.receive<int>();
}

class reserved_ports : public with_forked_peers {};

TEST_F(reserved_ports, are_for_those_who_may_bind_them) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(refusal_of(1023), 0);
  EXPECT_EQ(refusal_for_nobody(1023), EACCES);
  EXPECT_EQ(refusal_for_nobody(1), EACCES);
  EXPECT_EQ(refusal_for_nobody(1024), 0);
  EXPECT_EQ(refusal_for_nobody(0), 0);
}

}  // namespace
}  // namespace softverbs::device_tests
