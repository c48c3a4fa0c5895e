// A peer on the same host that ends without a word is noticed within a second.

#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include "forked_peer.hpp"

namespace softverbs::device_tests {
namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return name;
}

/// The next event; RDMA_CM_EVENT_TIMEWAIT_EXIT, which nobody here waits for, if there is none.
rdma_cm_event_type next_event(rdma_event_channel* events, steady::time_point until,
                              rdma_cm_id** id = nullptr) {
  pollfd waiting{.fd = events->fd, .events = POLLIN, .revents = 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady::now()).count();
  if (::poll(&waiting, 1, left < 0 ? 0 : static_cast<int>(left)) != 1)
    return RDMA_CM_EVENT_TIMEWAIT_EXIT;
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(events, &event) != 0) return RDMA_CM_EVENT_TIMEWAIT_EXIT;
  if (id != nullptr) *id = event->id;
  const auto what = event->event;
  rdma_ack_cm_event(event);
  return what;
}

/// A process that accepts one connection and is gone the moment after.
void accept_and_vanish(const forked_peer::teller& parent) {
  auto* const events = rdma_create_event_channel();
  rdma_cm_id* listener = nullptr;
  auto own = loopback(0);
  if (events == nullptr || rdma_create_id(events, &listener, nullptr, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&own)) != 0 ||
      rdma_listen(listener, 1) != 0)
    ::_exit(1);
  parent.tell(ntohs(rdma_get_src_port(listener)));
  rdma_cm_id* asked = nullptr;
  if (next_event(events, steady::now() + 20s, &asked) != RDMA_CM_EVENT_CONNECT_REQUEST) ::_exit(1);
  rdma_conn_param terms{};
  terms.qp_num = 0x123456;
  ::_exit(rdma_accept(asked, &terms) == 0 ? 0 : 1);
}

class dead_peers : public with_forked_peers {};

TEST_F(dead_peers, one_that_dies_with_its_answer_is_noticed_within_a_second) {
  forked_peer server(accept_and_vanish);
  const auto port = server.receive<std::uint16_t>();

  auto* const events = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(events, &id, nullptr, RDMA_PS_TCP), 0);
  auto peer = loopback(port);
  const auto patience = steady::now() + 20s;
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&peer), 1000), 0);
  ASSERT_EQ(next_event(events, patience), RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  ASSERT_EQ(next_event(events, patience), RDMA_CM_EVENT_ROUTE_RESOLVED);
  rdma_conn_param terms{};
  terms.qp_num = 0x123457;
  ASSERT_EQ(rdma_connect(id, &terms), 0);
  ASSERT_EQ(server.wait(), 0);
  const auto died = steady::now();
  EXPECT_EQ(next_event(events, patience), RDMA_CM_EVENT_CONNECT_RESPONSE);
  EXPECT_EQ(next_event(events, died + 1s), RDMA_CM_EVENT_DISCONNECTED);
  rdma_destroy_id(id);
  rdma_destroy_event_channel(events);
}

}  // namespace
}  // namespace softverbs::device_tests
