// async_event_queue, async_event: asynchronous events and the objects that they concern.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

class async_events : public device_test {
 protected:
  /// The next event of this type; others are ignored.
  static async_event wait_for_event(const async_event_queue& events, async_event_type wanted) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < deadline) {
      auto event = events.get_event(patience).value();
      if (event.type() == wanted) return event;
    }
    throw std::runtime_error("there was no event " + std::string(describe(wanted)));
  }

  /// Asks for the event that the send queue is drained; it is raised at once, because there is no
  /// work.
  static void drain_send_queue(const queue_pair& qp) {
    qp.modify({.state = qp_state::sqd, .sqd_async_notify = true}).value();
  }
};

TEST_F(async_events, without_events_nothing_is_there) {
  const auto events = ctx.async_events().value();
  const auto start = std::chrono::steady_clock::now();

  EXPECT_NE(::fcntl(events.fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_FALSE(events.try_get_event().value().has_value());
  EXPECT_EQ(events.get_event(100ms).error(), std::errc::timed_out);

  EXPECT_GE(std::chrono::steady_clock::now() - start, 100ms);
}

TEST_F(async_events, a_completion_queue_that_overflows_is_reported) {
  RDMAXX_NEEDS(capability::cq_overflow_event);
  const connected_pair pair({.cq_capacity = 4});
  const auto events = pair.a.ctx.async_events().value();
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);

  for (std::uint32_t i = 0; i < pair.a.send_cq.capacity() + 8; ++i) {
    if (!pair.a.qp.post(write_wr{.from = from.gather(), .to = to.remote()})) break;
  }

  ASSERT_TRUE(wait_readable(events.fd(), patience).value());
  const auto event = wait_for_event(events, async_event_type::cq_error);
  EXPECT_TRUE(event.concerns(pair.a.send_cq)) << event;
  EXPECT_FALSE(event.concerns(pair.a.recv_cq));
  EXPECT_FALSE(event.concerns(pair.a.qp));
  EXPECT_FALSE(event.queue_pair_number().has_value());
  EXPECT_FALSE(event.port().has_value());
}

TEST_F(async_events, an_event_names_its_queue_pair) {
  RDMAXX_NEEDS(capability::send_queue_drained_event);
  const connected_pair pair;
  const auto events = pair.a.ctx.async_events().value();

  drain_send_queue(pair.a.qp);

  auto event = wait_for_event(events, async_event_type::send_queue_drained);
  EXPECT_TRUE(event.concerns(pair.a.qp)) << event;
  EXPECT_FALSE(event.concerns(pair.b.qp));
  EXPECT_EQ(event.queue_pair_number(), pair.a.qp.number());
  EXPECT_EQ(event.context(), pair.a.ctx);
  EXPECT_NE(describe(event).find(describe(pair.a.qp.number())), std::string::npos) << event;
  event.acknowledge();
  EXPECT_EQ(event.type(), async_event_type::send_queue_drained);
  EXPECT_FALSE(event.concerns(pair.a.qp)) << "an acknowledged event no longer holds its object";
}

TEST_F(async_events, a_queue_pair_can_end_while_its_event_is_held) {
  RDMAXX_NEEDS(capability::send_queue_drained_event);
  connected_pair pair;
  const auto events = pair.a.ctx.async_events().value();
  drain_send_queue(pair.a.qp);
  std::optional<async_event> event = wait_for_event(events, async_event_type::send_queue_drained);
  const auto number = pair.a.qp.number();

  pair.a.qp = {};

  EXPECT_EQ(event->queue_pair_number(), number) << "the event keeps its queue pair alive";
  event.reset();
  EXPECT_FALSE(events.try_get_event().value().has_value());
}

TEST_F(async_events, the_unread_events_of_a_queue_pair_end_with_it) {
  RDMAXX_NEEDS(capability::send_queue_drained_event);
  connected_pair pair;
  const auto events = pair.a.ctx.async_events().value();
  drain_send_queue(pair.a.qp);
  ASSERT_TRUE(wait_readable(events.fd(), patience).value());

  pair.a.qp = {};

  EXPECT_FALSE(events.try_get_event().value().has_value());
}

TEST_F(async_events, a_queue_pair_can_end_while_another_thread_reads_its_events) {
  RDMAXX_NEEDS(capability::send_queue_drained_event);
  const auto events = ctx.async_events().value();
  std::atomic<bool> ended = false;
  std::atomic<int> seen = 0;
  {
    const std::jthread reader([&] {
      while (!ended) {
        if (const auto event = events.get_event(50ms)) ++seen;
      }
    });
    for (int i = 0; i < 30; ++i) {
      const auto side = unconnected_side(ctx);
      side.qp.connect(side.qp.endpoint().value()).value();
      drain_send_queue(side.qp);
    }
    ended = true;
  }
  EXPECT_LE(seen, 30);
}

TEST_F(async_events, events_of_objects_made_by_the_c_api_are_delivered_too) {
  RDMAXX_NEEDS(capability::send_queue_drained_event);
  const auto side = unconnected_side(ctx);
  const auto events = ctx.async_events().value();
  ibv_qp_init_attr wishes{};
  wishes.send_cq = wishes.recv_cq = side.send_cq.native();
  wishes.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  wishes.qp_type = IBV_QPT_RC;
  ibv_qp* const foreign = ibv_create_qp(side.pd.native(), &wishes);
  ASSERT_NE(foreign, nullptr);
  {
    const auto borrowed =
        queue_pair::adopt(foreign,
                          {.pd = side.pd, .send_cq = side.send_cq, .recv_cq = side.send_cq},
                          {.kind = ownership::borrowed})
            .value();
    borrowed.connect(borrowed.endpoint().value()).value();
  }
  ibv_qp_attr drained{};
  drained.qp_state = IBV_QPS_SQD;
  drained.en_sqd_async_notify = 1;

  ASSERT_EQ(ibv_modify_qp(foreign, &drained, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);

  {
    const auto event = wait_for_event(events, async_event_type::send_queue_drained);
    EXPECT_EQ(event.queue_pair_number(), qpn(foreign->qp_num));
    EXPECT_FALSE(event.concerns(side.qp));
  }
  EXPECT_EQ(ibv_destroy_qp(foreign), 0);
}

TEST_F(async_events, a_port_that_goes_down_and_comes_back_is_reported) {
  if (std::getenv("RDMAXX_TESTBED") ==
      nullptr) {  // NOLINT(concurrency-mt-unsafe): no thread changes it
    GTEST_SKIP() << "the device lacks a network interface that may be taken down: that is done in "
                    "the testbed only";
  }
  const auto events = ctx.async_events().value();
  const auto& interface = dut.netdev().value().name;
  const auto table = ctx.query_gid_table().value();

  set_link(interface, false);
  const auto down = wait_for_event(events, async_event_type::port_error);
  const auto state_when_down = ctx.query_port(1).value().state;
  set_link(interface, true);
  const auto active = wait_for_event(events, async_event_type::port_active);

  EXPECT_EQ(down.port(), 1) << down;
  EXPECT_NE(state_when_down, port_state::active);
  EXPECT_EQ(active.port(), 1) << active;
  EXPECT_FALSE(active.queue_pair_number().has_value());
  EXPECT_EQ(ctx.query_port(1).value().state, port_state::active);
  // Other tests need the addresses, which come back a moment later.
  wait_until("the GID table to be what it was", [&] {
    const auto now = ctx.query_gid_table().value();
    return std::ranges::all_of(table, [&](const gid_entry& row) {
      return std::ranges::find(now, row.address, &gid_entry::address) != now.end();
    });
  });
}

}  // namespace
}  // namespace rdmaxx::device_tests
