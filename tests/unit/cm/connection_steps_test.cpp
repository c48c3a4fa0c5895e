#include <rdmaxx/cm/connection_steps.hpp>

#include <cerrno>
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace rdmaxx;
using namespace std::chrono_literals;
using testing::HasSubstr;
using action = connection_action;

namespace {

const result<void> success{};

result<void> failure(int errno_value) { return errno_error("connecting", errno_value); }

}  // namespace

TEST(connection_steps_test, from_an_address_to_a_connection) {
  auto steps = connection_steps::to_connect();

  EXPECT_EQ(steps.start(), action::resolve_addr);
  EXPECT_EQ(steps.on_event(cm_event_type::addr_resolved, success), action::resolve_route);
  EXPECT_EQ(steps.on_event(cm_event_type::route_resolved, success), action::connect);
  EXPECT_FALSE(steps.is_over());
  EXPECT_EQ(steps.on_event(cm_event_type::established, success), action::done);
  EXPECT_TRUE(steps.is_over());
}

TEST(connection_steps_test, up_to_a_route_and_from_a_route_to_a_connection) {
  auto resolving = connection_steps::to_resolve();
  EXPECT_EQ(resolving.start(), action::resolve_addr);
  EXPECT_EQ(resolving.on_event(cm_event_type::addr_resolved, success), action::resolve_route);
  EXPECT_EQ(resolving.on_event(cm_event_type::route_resolved, success), action::done);

  auto connecting = connection_steps::from_resolved();
  EXPECT_EQ(connecting.start(), action::connect);
  EXPECT_EQ(connecting.awaited(), cm_event_type::established);
  EXPECT_EQ(connecting.on_event(cm_event_type::established, success), action::done);
}

TEST(connection_steps_test, from_a_request_to_a_connection) {
  auto steps = connection_steps::to_accept();

  EXPECT_EQ(steps.start(), action::accept);
  EXPECT_EQ(steps.on_event(cm_event_type::established, success), action::done);
}

TEST(connection_steps_test, events_that_end_no_step_are_ignored) {
  auto steps = connection_steps::to_connect();
  static_cast<void>(steps.start());

  for (const auto news : {cm_event_type::addr_change, cm_event_type::timewait_exit})
    EXPECT_EQ(steps.on_event(news, success), action::wait);
  EXPECT_EQ(steps.on_event(cm_event_type::established, success), action::wait)
      << "nothing has been resolved";

  EXPECT_EQ(steps.on_event(cm_event_type::addr_resolved, success), action::resolve_route);
}

TEST(connection_steps_test, a_failure_ends_it_and_stays) {
  auto steps = connection_steps::to_connect();
  static_cast<void>(steps.start());
  static_cast<void>(steps.on_event(cm_event_type::addr_resolved, success));

  EXPECT_EQ(steps.on_event(cm_event_type::route_error, failure(EHOSTUNREACH)), action::fail);

  EXPECT_EQ(steps.failure(), std::errc::host_unreachable);
  EXPECT_EQ(steps.awaited(), cm_event_type::route_resolved) << "tells which step it was";
  EXPECT_EQ(steps.on_event(cm_event_type::route_resolved, success), action::fail);
  EXPECT_EQ(steps.on_deadline(1s), action::fail);
  EXPECT_EQ(steps.failure(), std::errc::host_unreachable);
}

TEST(connection_steps_test, a_disconnection_and_the_removal_of_the_device_end_it) {
  auto steps = connection_steps::from_resolved();
  static_cast<void>(steps.start());
  EXPECT_EQ(steps.on_event(cm_event_type::disconnected, success), action::fail);
  EXPECT_EQ(steps.failure(), std::errc::connection_reset);

  steps = connection_steps::from_resolved();
  static_cast<void>(steps.start());
  EXPECT_EQ(steps.on_event(cm_event_type::device_removal, success), action::fail);
  EXPECT_EQ(steps.failure(), std::errc::no_such_device);
}

TEST(connection_steps_test, an_action_that_cannot_be_begun_ends_it) {
  auto steps = connection_steps::to_connect();
  static_cast<void>(steps.start());

  EXPECT_EQ(steps.on_refusal(errno_error("rdma_resolve_addr", ENODEV)), action::fail);

  EXPECT_TRUE(steps.is_over());
  EXPECT_EQ(steps.failure(), std::errc::no_such_device);
}

TEST(connection_steps_test, a_timeout_says_for_what_and_how_long_it_waited) {
  auto steps = connection_steps::from_resolved();
  static_cast<void>(steps.start());

  EXPECT_EQ(steps.on_deadline(250ms), action::fail);

  EXPECT_EQ(steps.failure(), std::errc::timed_out);
  EXPECT_THAT(steps.failure().message(), HasSubstr("waiting for established"));
  EXPECT_THAT(steps.failure().message(), HasSubstr("timed out after 250 ms"));
}

TEST(connection_steps_test, a_failure_of_an_accepted_peer_has_category_peer) {
  auto late = connection_steps::to_accept();
  static_cast<void>(late.start());
  EXPECT_EQ(late.on_deadline(1s), action::fail);
  EXPECT_EQ(late.failure().category(), error_category::peer);
  EXPECT_NE(late.failure(), std::errc::timed_out) << "that says that nobody came";

  auto gone = connection_steps::to_accept();
  static_cast<void>(gone.start());
  EXPECT_EQ(gone.on_event(cm_event_type::disconnected, success), action::fail);
  EXPECT_EQ(gone.failure().category(), error_category::peer);

  auto own = connection_steps::to_accept();
  static_cast<void>(own.start());
  EXPECT_EQ(own.on_refusal(errno_error("rdma_create_qp", ENOMEM)), action::fail);
  EXPECT_EQ(own.failure(), std::errc::not_enough_memory) << "that is this side's own";
  EXPECT_NE(own.failure().category(), error_category::peer);
}

TEST(connection_steps_test, success_is_kept_when_the_deadline_passes_later) {
  auto steps = connection_steps::to_accept();
  static_cast<void>(steps.start());
  static_cast<void>(steps.on_event(cm_event_type::established, success));

  EXPECT_EQ(steps.on_deadline(1s), action::done);
  EXPECT_EQ(steps.on_event(cm_event_type::disconnected, success), action::done);
}

TEST(connection_steps_test, a_single_event_can_be_awaited) {
  auto steps = connection_steps::awaiting(cm_event_type::multicast_join);

  EXPECT_EQ(steps.start(), action::wait);
  EXPECT_EQ(steps.on_event(cm_event_type::addr_change, success), action::wait);
  EXPECT_EQ(steps.on_event(cm_event_type::multicast_join, success), action::done);
}

TEST(connection_steps_test, is_described) {
  EXPECT_EQ(describe(connection_steps::to_accept()), "waiting for established");
  EXPECT_EQ(describe(action::resolve_route), "resolve_route");
}
