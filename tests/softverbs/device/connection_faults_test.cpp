// Faults on the way to a connection, and what the connection manager makes of them.

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <softverbs/softverbs.h>

#include "owned.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using namespace std::chrono_literals;

struct destroy_cm {
  void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
  void operator()(rdma_cm_id* id) const {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
};
using owned_channel = std::unique_ptr<rdma_event_channel, destroy_cm>;
using owned_id = std::unique_ptr<rdma_cm_id, destroy_cm>;

/// What an event has said; it is acknowledged.
struct news {
  rdma_cm_event_type type{};
  int status = 0;
  owned_id request{};
};

class connection_faults : public ::testing::Test {
 protected:
  connection_faults()
      : passive_(rdma_create_event_channel()),
        active_(rdma_create_event_channel()),
        listener_(make_id(*passive_)),
        client_(make_id(*active_)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(rdma_bind_addr(listener_.get(), reinterpret_cast<sockaddr*>(&own)), 0);
    EXPECT_EQ(rdma_listen(listener_.get(), 4), 0);
    own.sin_port = rdma_get_src_port(listener_.get());
    EXPECT_EQ(rdma_resolve_addr(client_.get(), nullptr, reinterpret_cast<sockaddr*>(&own), 1000),
              0);
    EXPECT_EQ(next(*active_).type, RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(rdma_resolve_route(client_.get(), 1000), 0);
    EXPECT_EQ(next(*active_).type, RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_queue_pair(*client_);
  }
  ~connection_faults() override {
    ::softverbs_faults(nullptr);
    ::softverbs_time_resume();
  }

  static owned_id make_id(rdma_event_channel& channel) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(&channel, &id, nullptr, RDMA_PS_TCP), 0);
    return owned_id(id);
  }

  static void make_queue_pair(rdma_cm_id& id) {
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {.max_send_wr = 1,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    ASSERT_EQ(rdma_create_qp(&id, nullptr, &wanted), 0);
  }

  static news next(rdma_event_channel& channel) {
    wait_until_readable(channel.fd);
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(&channel, &event), 0);
    news told{.type = event->event, .status = event->status};
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) told.request.reset(event->id);
    rdma_ack_cm_event(event);
    return told;
  }

  void connect() {
    rdma_conn_param terms{};
    terms.retry_count = 7;
    terms.rnr_retry_count = 7;
    ASSERT_EQ(rdma_connect(client_.get(), &terms), 0);
  }

  /// With both sides' events.
  void expect_connection() {
    connect();
    auto request = next(*passive_);
    ASSERT_EQ(request.type, RDMA_CM_EVENT_CONNECT_REQUEST);
    server_ = std::move(request.request);
    make_queue_pair(*server_);
    rdma_conn_param terms{};
    ASSERT_EQ(rdma_accept(server_.get(), &terms), 0);
    EXPECT_EQ(next(*active_).type, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(next(*passive_).type, RDMA_CM_EVENT_ESTABLISHED);
  }

  owned_channel passive_;
  owned_channel active_;
  owned_id listener_;
  owned_id client_;
  owned_id server_;
};

TEST_F(connection_faults, lost_messages_are_sent_again) {
  ASSERT_EQ(::softverbs_faults("lose cm=REQ first=2; lose cm=REP first=1; lose cm=RTU first=1"), 0);
  expect_connection();
  EXPECT_EQ(::softverbs_faults_hits(0), 2U);
  EXPECT_EQ(::softverbs_faults_hits(1), 1U);
  EXPECT_EQ(::softverbs_faults_hits(2), 1U);
}

TEST_F(connection_faults, late_and_repeated_messages_do_no_harm) {
  ASSERT_EQ(::softverbs_faults("duplicate cm=REQ; delay=50ms cm=REP; reorder cm=RTU first=1; "
                               "duplicate cm=RTU"),
            0);
  expect_connection();
  ASSERT_EQ(rdma_disconnect(client_.get()), 0);
  EXPECT_EQ(next(*passive_).type, RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(connection_faults, a_request_is_rejected_for_any_reason) {
  ASSERT_EQ(::softverbs_faults("reject=3"), 0);
  connect();
  const auto told = next(*active_);
  EXPECT_EQ(told.type, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(told.status, 3);
  EXPECT_FALSE(is_readable(passive_->fd)) << "the listener has not heard of it";
}

TEST_F(connection_faults, the_second_attempt_is_accepted) {
  ASSERT_EQ(::softverbs_faults("reject nth=1"), 0);
  connect();
  EXPECT_EQ(next(*active_).status, 28);
  rdma_destroy_qp(client_.get());
  client_ = make_id(*active_);
  auto* const to = rdma_get_local_addr(listener_.get());
  ASSERT_EQ(rdma_resolve_addr(client_.get(), nullptr, to, 1000), 0);
  EXPECT_EQ(next(*active_).type, RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(client_.get(), 1000), 0);
  EXPECT_EQ(next(*active_).type, RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_queue_pair(*client_);
  expect_connection();
}

TEST_F(connection_faults, a_peer_that_never_answers_is_unreachable_in_the_end) {
  ::softverbs_time_stop();
  ASSERT_EQ(::softverbs_faults("lose cm=REQ"), 0);
  connect();
  // The kernel gives up after 16 attempts of 4.3 s at most.
  ASSERT_EQ(::softverbs_time_advance(std::chrono::nanoseconds(10s).count()), 0);
  EXPECT_FALSE(is_readable(active_->fd));
  ASSERT_EQ(::softverbs_time_advance(std::chrono::nanoseconds(5min).count()), 0);
  ASSERT_TRUE(is_readable(active_->fd));
  const auto told = next(*active_);
  EXPECT_EQ(told.type, RDMA_CM_EVENT_UNREACHABLE);
  EXPECT_EQ(told.status, -ETIMEDOUT);
}

TEST_F(connection_faults, functions_fail_when_they_are_told_to) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  auto* const address = reinterpret_cast<sockaddr*>(&any);
  rdma_conn_param terms{};
  ibv_qp_init_attr wanted{};
  const auto fresh = make_id(*active_);
  const std::vector<std::pair<std::string, std::function<int()>>> calls{
      {"rdma_create_event_channel", [] { return rdma_create_event_channel() == nullptr ? -1 : 0; }},
      {"rdma_create_id",
       [&] {
         rdma_cm_id* id = nullptr;
         return rdma_create_id(active_.get(), &id, nullptr, RDMA_PS_TCP);
       }},
      {"rdma_bind_addr", [&] { return rdma_bind_addr(fresh.get(), address); }},
      {"rdma_resolve_addr", [&] { return rdma_resolve_addr(fresh.get(), nullptr, address, 1); }},
      {"rdma_resolve_route", [&] { return rdma_resolve_route(fresh.get(), 1); }},
      {"rdma_create_qp", [&] { return rdma_create_qp(fresh.get(), nullptr, &wanted); }},
      {"rdma_connect", [&] { return rdma_connect(client_.get(), &terms); }},
      {"rdma_listen", [&] { return rdma_listen(fresh.get(), 1); }},
      {"rdma_accept", [&] { return rdma_accept(client_.get(), &terms); }},
      {"rdma_disconnect", [&] { return rdma_disconnect(client_.get()); }},
      {"rdma_join_multicast", [&] { return rdma_join_multicast(fresh.get(), address, nullptr); }},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    ASSERT_EQ(::softverbs_faults(("fail=EXDEV call=" + name).c_str()), 0);
    errno = 0;
    EXPECT_EQ(call(), -1);
    EXPECT_EQ(errno, EXDEV);
    EXPECT_EQ(::softverbs_faults_hits(0), 1U);
  }
}

}  // namespace

}  // namespace softverbs::device_tests
