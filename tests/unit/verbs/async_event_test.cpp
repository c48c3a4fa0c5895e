#include <rdmaxx/verbs/async_event.hpp>

#include <chrono>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/verbs/fake_verbs.hpp"

using namespace rdmaxx;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

class async_event_test : public testing::Test {
 protected:
  fake_setup setup;
  queue_pair qp = setup.make_qp();
  async_event_queue events = setup.ctx.async_events().value();

  void raise_qp_fatal() {
    ibv_async_event event{};
    event.event_type = IBV_EVENT_QP_FATAL;
    event.element.qp = qp.native();
    setup.card.raise(event);
  }
};

}  // namespace

TEST_F(async_event_test, without_an_event_there_is_nothing) {
  EXPECT_FALSE(events.try_get_event().value().has_value());
  EXPECT_EQ(events.get_event(1ms).error(), std::errc::timed_out);
}

TEST_F(async_event_test, a_port_event_names_the_port) {
  ibv_async_event native{};
  native.event_type = IBV_EVENT_PORT_ERR;
  native.element.port_num = 1;
  setup.card.raise(native);

  const auto event = events.get_event(forever);

  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->type(), async_event_type::port_error);
  EXPECT_EQ(event->port(), 1);
  EXPECT_FALSE(event->queue_pair_number().has_value());
  EXPECT_FALSE(event->concerns(qp));
  EXPECT_EQ(describe(*event), "port_error on port 1 of fake0");
}

TEST_F(async_event_test, a_queue_pair_event_names_the_queue_pair) {
  raise_qp_fatal();
  const auto other = setup.make_qp();

  const auto event = events.try_get_event().value();

  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->queue_pair_number(), qp.number());
  EXPECT_TRUE(event->concerns(qp));
  EXPECT_FALSE(event->concerns(other));
  EXPECT_FALSE(event->concerns(setup.cq));
  EXPECT_FALSE(event->port().has_value());
  EXPECT_EQ(describe(*event), "qp_fatal on queue pair " + describe(qp.number()) + " of fake0");
}

TEST_F(async_event_test, an_event_keeps_its_object_alive_and_acknowledges_before_it_lets_go) {
  raise_qp_fatal();
  {
    const auto event = events.try_get_event().value();
    qp = {};
    EXPECT_THAT(setup.card.ended, IsEmpty());
    EXPECT_EQ(setup.card.unacknowledged_async, 1U);
  }
  EXPECT_EQ(setup.card.unacknowledged_async, 0U);
  EXPECT_THAT(setup.card.ended, ElementsAre("ibv_destroy_qp"));
}

TEST_F(async_event_test, an_acknowledged_event_still_knows_what_it_was) {
  raise_qp_fatal();
  auto event = std::move(events.try_get_event().value()).value();

  event.acknowledge();
  event.acknowledge();
  qp = {};

  EXPECT_EQ(setup.card.unacknowledged_async, 0U);
  EXPECT_EQ(event.type(), async_event_type::qp_fatal);
  EXPECT_FALSE(event.queue_pair_number().has_value()) << "its object may be gone";
}

TEST_F(async_event_test, moving_hands_on_the_duty_to_acknowledge) {
  raise_qp_fatal();
  {
    auto event = std::move(events.try_get_event().value()).value();
    const async_event moved = std::move(event);
    EXPECT_EQ(setup.card.unacknowledged_async, 1U);
    EXPECT_TRUE(moved.concerns(qp));
    // NOLINTNEXTLINE(bugprone-use-after-move,hicpp-invalid-access-moved): that is the question here
    EXPECT_THAT(describe(event), HasSubstr("qp_fatal"));
  }
  EXPECT_EQ(setup.card.unacknowledged_async, 0U);
}

TEST_F(async_event_test, a_borrowed_object_outlives_its_handles_and_its_events_are_still_reported) {
  raise_qp_fatal();
  {
    const auto borrowed =
        queue_pair::adopt(qp.native(), {.pd = setup.pd, .send_cq = setup.cq, .recv_cq = setup.cq},
                          {.kind = ownership::borrowed})
            .value();
  }

  const auto event = events.try_get_event().value();

  ASSERT_TRUE(event.has_value());
  EXPECT_TRUE(event->concerns(qp));
}

TEST(async_event_queue, an_empty_one_says_so) {
  EXPECT_EQ(describe(async_event_queue()), "async_event_queue (empty)");
}
