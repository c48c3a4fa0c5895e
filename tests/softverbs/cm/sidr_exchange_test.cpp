// The resolution of a service id to a datagram queue pair, message by message (12.11).
#include <cm/sidr_exchange.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>

#include <gtest/gtest.h>

namespace softverbs::cm {
namespace {

using namespace std::chrono_literals;
using engine::time_point;
using wire::cm_kind;
using state = sidr_exchange::state;

constexpr time_point start{1h};
constexpr std::uint32_t request_id = 0x11110001;
constexpr std::uint64_t transaction = 77;

wire::cm_message sidr_req() {
  wire::cm_message req{
      .kind = cm_kind::sidr_req, .transaction = transaction, .local_id = request_id};
  req.service_id = 0x1061d6c;
  return req;
}

wire::cm_message sidr_rep(wire::sidr_status status = wire::sidr_status::success) {
  wire::cm_message rep{
      .kind = cm_kind::sidr_rep, .transaction = transaction, .local_id = request_id};
  rep.service_id = 0x1061d6c;
  rep.status = status;
  rep.qpn = 0x200;
  rep.qkey = 0x1ee7;
  return rep;
}

sidr_exchange client() {
  sidr_exchange one;
  EXPECT_TRUE(one.connect(sidr_req(), start).send);
  return one;
}

sidr_exchange server() {
  sidr_exchange one;
  one.receive_request(sidr_req());
  return one;
}

bool is_nothing(const protocol_step& step) {
  return step.error == 0 && !step.fail_queue_pair && !step.send && !step.notify;
}

TEST(ib_12_11_1_sidr_req, is_repeated_until_the_service_is_unreachable) {
  auto one = client();
  int repetitions = 0;
  auto step = one.on_timer(one.due());
  for (; step.send; step = one.on_timer(one.due())) ++repetitions;
  EXPECT_EQ(repetitions, 15);
  ASSERT_TRUE(step.notify);
  EXPECT_EQ(step.notify->event, protocol_event::unreachable);
  EXPECT_EQ(step.notify->status, -ETIMEDOUT);
  EXPECT_EQ(one.current_state(), state::closed);
  EXPECT_EQ(one.due(), engine::never);
}

TEST(ib_12_11_1_sidr_req, that_is_repeated_gets_the_same_answer) {
  for (const bool accepts : {true, false}) {
    auto one = server();
    EXPECT_TRUE(is_nothing(one.on_message(sidr_req(), true, start)));  // the user takes its time
    const auto status = accepts ? wire::sidr_status::success : wire::sidr_status::rejected;
    const auto first = accepts ? one.accept(sidr_rep(status)) : one.reject(sidr_rep(status));
    ASSERT_TRUE(first.send);
    EXPECT_EQ(*first.send, sidr_rep(status));
    EXPECT_EQ(one.on_message(sidr_req(), true, start).send, first.send);
    EXPECT_EQ(one.current_state(), accepts ? state::resolved : state::closed);
  }
}

TEST(ib_12_11_1_sidr_req, that_finds_no_listener_on_this_host_is_refused_after_ten_attempts) {
  auto one = client();
  auto now = start;
  for (int i = 1; i < 10; ++i) {
    EXPECT_TRUE(is_nothing(one.on_send_failure(ECONNREFUSED, now)));
    now = one.due();
    ASSERT_TRUE(one.on_timer(now).send);
  }
  EXPECT_EQ(now, start + 45ms);
  const auto step = one.on_send_failure(ECONNREFUSED, now);
  ASSERT_TRUE(step.notify);
  EXPECT_EQ(step.notify->event, protocol_event::unreachable);
  EXPECT_EQ(step.notify->status, static_cast<int>(wire::sidr_status::unsupported));
  EXPECT_EQ(one.due(), engine::never);
}

TEST(ib_12_11_1_sidr_req, that_cannot_be_sent_leaves_the_exchange_idle) {
  auto one = client();
  EXPECT_EQ(one.on_send_failure(EADDRNOTAVAIL, start).error, EADDRNOTAVAIL);
  EXPECT_EQ(one.current_state(), state::idle);
  EXPECT_TRUE(one.connect(sidr_req(), start).send);
  ASSERT_TRUE(one.on_timer(one.due()).send);  // a repetition counts as lost
  EXPECT_TRUE(is_nothing(one.on_send_failure(EADDRNOTAVAIL, start)));
  EXPECT_EQ(one.current_state(), state::req_sent);
}

TEST(ib_12_11_2_sidr_rep, tells_queue_pair_or_status_once) {
  for (const auto status : {wire::sidr_status::success, wire::sidr_status::unsupported,
                            wire::sidr_status::rejected, wire::sidr_status::no_qp}) {
    auto one = client();
    const auto step = one.on_message(sidr_rep(status), true, start);
    const bool success = status == wire::sidr_status::success;
    ASSERT_TRUE(step.notify);
    EXPECT_EQ(step.notify->event,
              success ? protocol_event::established : protocol_event::unreachable);
    EXPECT_EQ(step.notify->status, static_cast<int>(status));
    EXPECT_EQ(step.notify->message, sidr_rep(status));
    EXPECT_EQ(one.current_state(), success ? state::resolved : state::closed);
    EXPECT_EQ(one.due(), engine::never);
    EXPECT_TRUE(is_nothing(one.on_message(sidr_rep(status), true, start)));
  }
}

TEST(ib_12_11_2_sidr_rep, of_another_request_is_ignored) {
  auto one = client();
  auto stale = sidr_rep();
  stale.local_id ^= 1U;
  EXPECT_TRUE(is_nothing(one.on_message(stale, false, start)));
  auto forged = sidr_rep();
  forged.transaction ^= 1U;
  EXPECT_TRUE(is_nothing(one.on_message(forged, true, start)));
  EXPECT_EQ(one.current_state(), state::req_sent);
  EXPECT_TRUE(one.on_message(forged, false, start).notify);  // another host is trusted
}

TEST(ib_12_11_2_sidr_rep, that_cannot_be_sent_leaves_the_request_open) {
  auto one = server();
  static_cast<void>(one.accept(sidr_rep()));
  EXPECT_EQ(one.on_send_failure(EADDRNOTAVAIL, start).error, EADDRNOTAVAIL);
  EXPECT_EQ(one.current_state(), state::req_received);
  // A client that has gone does not need it, and a repetition may be lost.
  static_cast<void>(one.accept(sidr_rep()));
  EXPECT_TRUE(is_nothing(one.on_send_failure(ECONNREFUSED, start)));
  EXPECT_EQ(one.current_state(), state::resolved);
  ASSERT_TRUE(one.on_message(sidr_req(), true, start).send);
  EXPECT_NE(one.on_send_failure(EADDRNOTAVAIL, start).error, 0);
  EXPECT_EQ(one.current_state(), state::resolved);
}

TEST(ib_12_11_states, messages_of_connections_are_ignored) {
  for (const auto kind : {cm_kind::req, cm_kind::mra, cm_kind::rej, cm_kind::rep, cm_kind::rtu,
                          cm_kind::dreq, cm_kind::drep}) {
    const wire::cm_message message{
        .kind = kind, .transaction = transaction, .local_id = request_id, .remote_id = request_id};
    sidr_exchange idle;
    auto asking = client();
    auto asked = server();
    auto resolved = client();
    static_cast<void>(resolved.on_message(sidr_rep(), true, start));
    for (auto* const each : {&idle, &asking, &asked, &resolved}) {
      const auto before = each->current_state();
      EXPECT_TRUE(is_nothing(each->on_message(message, true, start)));
      EXPECT_EQ(each->current_state(), before);
    }
  }
}

TEST(ib_12_11_states, calls_out_of_turn_are_refused) {
  sidr_exchange idle;
  EXPECT_EQ(idle.accept(sidr_rep()).error, EINVAL);
  EXPECT_EQ(idle.reject(sidr_rep()).error, EINVAL);
  EXPECT_EQ(idle.disconnect().error, EINVAL);
  auto asking = client();
  EXPECT_EQ(asking.connect(sidr_req(), start).error, EINVAL);
  EXPECT_EQ(asking.accept(sidr_rep()).error, EINVAL);
  EXPECT_EQ(asking.disconnect().error, 0);
  EXPECT_TRUE(asking.disconnect().fail_queue_pair);
  auto refused = server();
  static_cast<void>(refused.reject(sidr_rep()));
  EXPECT_TRUE(is_nothing(refused.accept(sidr_rep())));
}

TEST(sidr_exchange, refuses_an_open_request_when_the_user_destroys_it) {
  auto open = server();
  const auto step = open.abandon();
  ASSERT_TRUE(step.send);
  EXPECT_EQ(step.send->status, wire::sidr_status::rejected);
  EXPECT_EQ(step.send->local_id, request_id);
  auto asking = client();
  EXPECT_FALSE(asking.abandon().send);
  EXPECT_EQ(asking.due(), engine::never);
}

}  // namespace
}  // namespace softverbs::cm
