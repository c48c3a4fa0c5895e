#include <rdmaxx/verbs/completion_queue.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
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

class completion_queue_test : public testing::Test {
 protected:
  fake_setup setup;
  fake_cq& device = fake_device::of(setup.cq);
  std::array<work_completion, 4> completions;

  void complete(std::uint64_t id) {
    ibv_wc native{};
    native.wr_id = id;
    device.completions.push_back(native);
  }
};

class completion_channel_test : public testing::Test {
 protected:
  fake_device card;
  context ctx = card.open();
  completion_channel channel = ctx.create_completion_channel().value();
  completion_queue cq = ctx.create_cq({.capacity = 8, .channel = channel}).value();
};

}  // namespace

TEST_F(completion_queue_test, polling_an_empty_queue_gives_nothing) {
  EXPECT_TRUE(setup.cq.poll(completions).value().empty());
  EXPECT_EQ(device.last_poll_size, 4);
}

TEST_F(completion_queue_test, polling_gives_the_part_that_was_filled) {
  complete(1);
  complete(2);

  const auto polled = setup.cq.poll(completions).value();

  ASSERT_EQ(polled.size(), 2U);
  EXPECT_EQ(polled.data(), completions.data()) << "no copy";
  EXPECT_EQ(polled[0].id(), wr_id(1));
  EXPECT_EQ(polled[1].id(), wr_id(2));
}

TEST_F(completion_queue_test, polling_takes_no_more_than_there_is_room_for) {
  for (unsigned i = 0; i < 6; ++i) complete(i);

  EXPECT_EQ(setup.cq.poll(completions).value().size(), 4U);
  EXPECT_EQ(setup.cq.poll(completions).value().size(), 2U);
  EXPECT_TRUE(setup.cq.poll({}).value().empty());
}

TEST_F(completion_queue_test, a_failed_poll_is_an_error_however_it_is_reported) {
  device.poll_failure = -1;
  errno = EIO;
  EXPECT_EQ(setup.cq.poll(completions).error(), std::errc::io_error);

  device.poll_failure = -EINVAL;
  const auto failed = setup.cq.poll(completions);
  EXPECT_EQ(failed.error(), std::errc::invalid_argument);
  EXPECT_THAT(failed.error().operation(), HasSubstr("ibv_poll_cq"));
  EXPECT_FALSE(failed.error().hint().empty());
}

TEST_F(completion_queue_test, arming_says_which_completions_count) {
  ASSERT_TRUE(setup.cq.req_notify());
  ASSERT_TRUE(setup.cq.req_notify(notify::solicited));

  EXPECT_THAT(device.notifications, ElementsAre(0, 1));
}

TEST_F(completion_queue_test, arming_without_a_channel_explains_the_refusal) {
  setup.card.refuse("ibv_req_notify_cq", EINVAL);

  EXPECT_THAT(setup.cq.req_notify().error().hint(), HasSubstr("without a completion channel"));
}

TEST_F(completion_queue_test, bad_sizes_are_refused_with_the_limit) {
  EXPECT_THAT(setup.ctx.create_cq({.capacity = 0}).error().hint(), HasSubstr("at least one"));
  EXPECT_THAT(setup.ctx.create_cq({.capacity = 0x80000000}).error().hint(),
              HasSubstr("at most 4096"));
  EXPECT_THAT(setup.cq.resize(0).error().hint(), HasSubstr("at least one"));

  setup.card.refuse("ibv_create_cq", EINVAL);
  setup.card.refuse("ibv_resize_cq", EINVAL);
  EXPECT_THAT(setup.ctx.create_cq({.capacity = 5000}).error().message(),
              HasSubstr("exceeds the limit of fake0"));
  EXPECT_THAT(setup.cq.resize(5000).error().hint(), HasSubstr("at most 4096"));
}

TEST_F(completion_queue_test, a_resized_queue_knows_its_capacity) {
  ASSERT_TRUE(setup.cq.resize(32));

  EXPECT_EQ(setup.cq.capacity(), 32U);
}

TEST_F(completion_queue_test, a_vector_the_device_does_not_have_is_refused) {
  EXPECT_THAT(setup.ctx.create_cq({.completion_vector = 2}).error().message(),
              HasSubstr("fake0 has 2"));
}

TEST_F(completion_queue_test, a_channel_of_another_device_is_refused) {
  fake_device other;
  const auto channel = other.open().create_completion_channel().value();

  EXPECT_THAT(setup.ctx.create_cq({.channel = channel}).error().problem(),
              HasSubstr("another context"));
}

TEST_F(completion_queue_test, is_described) {
  EXPECT_EQ(describe(completion_queue()), "completion_queue (empty)");
  EXPECT_THAT(describe(setup.cq), HasSubstr("capacity 16 on fake0"));
  EXPECT_EQ(describe(completion_queue_config{.capacity = 8}), "capacity 8 vector 0");
}

// ── events
// ────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(completion_channel_test, without_an_event_there_is_nothing) {
  EXPECT_FALSE(channel.try_get_event().value().has_value());
  EXPECT_EQ(channel.get_event(1ms).error(), std::errc::timed_out);
}

TEST_F(completion_channel_test, an_event_names_its_queue) {
  fake_device::of(channel).raise(cq);

  const auto event = channel.get_event(forever);

  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->queue(), cq);
  EXPECT_EQ(event->native(), cq.native());
}

TEST_F(completion_channel_test, events_are_acknowledged_in_batches) {
  const auto& device = fake_device::of(cq);
  for (unsigned ended = 1; ended <= 3 * 64; ++ended) {
    fake_device::of(channel).raise(cq);
    ASSERT_TRUE(channel.try_get_event().value().has_value());
    EXPECT_EQ(device.unacknowledged, ended % 64);
  }
}

TEST_F(completion_channel_test, an_event_that_is_held_is_not_acknowledged_with_those_that_ended) {
  fake_device::of(channel).raise(cq);
  const auto held = channel.try_get_event().value();
  for (int i = 0; i < 64; ++i) {
    fake_device::of(channel).raise(cq);
    static_cast<void>(channel.try_get_event().value());
  }

  EXPECT_EQ(fake_device::of(cq).unacknowledged, 1U);
}

TEST_F(completion_channel_test, the_end_of_a_queue_acknowledges_what_is_left) {
  fake_device::of(channel).raise(cq);
  static_cast<void>(channel.try_get_event().value());
  ASSERT_EQ(fake_device::of(cq).unacknowledged, 1U);

  cq = {};  // the fake returns EBUSY where the real one would wait forever

  EXPECT_THAT(card.ended, ElementsAre("ibv_destroy_cq"));
}

TEST_F(completion_channel_test, a_borrowed_queue_is_handed_back_with_its_events_acknowledged) {
  auto* const foreign = ibv_create_cq(&card, 4, nullptr, channel.native(), 0);
  {
    const auto lent =
        completion_queue::adopt(foreign, ctx, channel, {.kind = ownership::borrowed}).value();
    fake_device::of(channel).raise(lent);
    EXPECT_EQ(channel.try_get_event().value()->queue(), lent);
    EXPECT_EQ(fake_device::of(lent).unacknowledged, 1U);
  }
  EXPECT_EQ(ibv_destroy_cq(foreign), 0);
}

TEST_F(completion_channel_test, an_event_of_a_foreign_queue_is_recognised) {
  int theirs = 0;  // not one of the library's blocks, whatever it looks like
  auto* const foreign = ibv_create_cq(&card, 4, &theirs, channel.native(), 0);
  fake_device::of(channel).raise(foreign);
  fake_device::of(channel).raise(cq);
  {
    const auto event = channel.try_get_event().value();
    ASSERT_TRUE(event.has_value());
    EXPECT_FALSE(event->queue());
    EXPECT_EQ(event->native(), foreign);
    EXPECT_EQ(describe(*event), "event of a foreign completion queue");
  }
  EXPECT_EQ(channel.try_get_event().value()->queue(), cq);
  EXPECT_EQ(ibv_destroy_cq(foreign), 0) << "its event was acknowledged at its end";
}

TEST_F(completion_channel_test, an_adopted_channel_serves_the_queues_of_the_library) {
  auto* const native = ibv_create_comp_channel(&card);
  {
    const auto adopted = completion_channel::adopt(native, ctx).value();
    const auto own = ctx.create_cq({.capacity = 8, .channel = adopted}).value();
    fake_device::of(adopted).raise(own);
    EXPECT_EQ(adopted.try_get_event().value()->queue(), own);
  }
  EXPECT_THAT(card.ended, ElementsAre("ibv_destroy_cq", "ibv_destroy_comp_channel"));
}

TEST_F(completion_channel_test, adoption_refuses_what_does_not_belong_together) {
  fake_device other;
  const auto elsewhere = other.open();
  const adoption lent{.kind = ownership::borrowed};

  EXPECT_FALSE(completion_channel::adopt(nullptr, ctx, lent));
  EXPECT_FALSE(completion_channel::adopt(channel.native(), {}, lent));
  EXPECT_THAT(completion_channel::adopt(channel.native(), elsewhere, lent).error().problem(),
              HasSubstr("another context"));
  EXPECT_FALSE(completion_queue::adopt(nullptr, ctx, channel, lent));
  EXPECT_THAT(completion_queue::adopt(cq.native(), elsewhere, channel, lent).error().problem(),
              HasSubstr("another context"));
  EXPECT_THAT(completion_queue::adopt(cq.native(), ctx, {}, lent).error().problem(),
              HasSubstr("channel is not the one"));
}

TEST_F(completion_queue_test, a_driver_without_extended_queues_gives_ordinary_ones) {
  EXPECT_EQ(setup.cq.native_extended(), nullptr);
  EXPECT_EQ(setup.cq.capacity(), 16U);
}

TEST_F(completion_queue_test, poll_each_shows_as_many_as_there_are_and_no_more_than_wanted) {
  for (unsigned i = 0; i < 40; ++i) complete(i);
  std::uint64_t next = 0;
  const auto in_order = [&](const work_completion& c) { EXPECT_EQ(c.id(), wr_id(next++)); };

  EXPECT_EQ(setup.cq.poll_each(0, in_order).value(), 0U);
  EXPECT_EQ(setup.cq.poll_each(33, in_order).value(), 33U);
  EXPECT_EQ(setup.cq.poll_each(33, in_order).value(), 7U);
  EXPECT_EQ(setup.cq.poll_each(33, in_order).value(), 0U);
  EXPECT_EQ(next, 40U);

  device.poll_failure = -EINVAL;
  EXPECT_EQ(setup.cq.poll_each(1, in_order).error(), std::errc::invalid_argument);
}

TEST_F(completion_channel_test, an_event_moved_from_is_not_acknowledged_twice) {
  fake_device::of(channel).raise(cq);
  auto event = std::move(channel.try_get_event().value()).value();

  cq_event moved = std::move(event);
  EXPECT_EQ(fake_device::of(cq).unacknowledged, 1U);
  moved.acknowledge();
  moved.acknowledge();
  for (int i = 0; i < 63; ++i) {
    fake_device::of(channel).raise(cq);
    static_cast<void>(channel.try_get_event().value());
  }

  EXPECT_EQ(fake_device::of(cq).unacknowledged, 0U) << "it counts once";
  EXPECT_EQ(moved.native(), nullptr);
  EXPECT_EQ(describe(moved), "event of completion_queue (empty)");
}

TEST_F(completion_channel_test,
       an_event_keeps_its_queue_alive_and_releases_it_after_the_acknowledgement) {
  fake_device::of(channel).raise(cq);
  {
    const auto event = channel.try_get_event().value();
    cq = {};
    EXPECT_THAT(card.ended, IsEmpty());
  }
  EXPECT_THAT(card.ended, ElementsAre("ibv_destroy_cq"));
}

TEST_F(completion_channel_test, a_channel_outlives_its_queues) {
  channel = {};
  EXPECT_THAT(card.ended, IsEmpty());

  cq = {};
  EXPECT_THAT(card.ended, ElementsAre("ibv_destroy_cq", "ibv_destroy_comp_channel"));
}
