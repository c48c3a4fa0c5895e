#include <rdmaxx/verbs/queue_pair.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/core/captured_log.hpp"
#include "unit/verbs/fake_verbs.hpp"
#include "verbs/qp_block.hpp"

using namespace rdmaxx;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

class queue_pair_test : public testing::Test {
 protected:
  fake_setup setup;
  queue_pair qp = setup.make_qp(
      {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2, .max_inline = 16});
  fake_qp& device = fake_device::of(qp);
  std::array<std::byte, 64> buffer{};
  memory_region region = setup.pd.register_local(buffer).value();

  [[nodiscard]] static qp_endpoint peer() {
    return {.number = qpn(0x22),
            .first_psn = psn(0x333),
            .gid = gid::parse("10.0.0.2").value(),
            .mtu = mtu::mtu_512,
            .responder_resources = 4};
  }
};

}  // namespace

// ── posting
// ───────────────────────────────────────────────────────────────────────────────────────────

TEST_F(queue_pair_test, posts_exactly_the_request_it_is_given) {
  ASSERT_TRUE(qp.post(send_wr{.id = wr_id(1), .from = region.gather(), .imm = 5}));

  ASSERT_EQ(device.sends.size(), 1U);
  const auto& [request, elements] = device.sends[0];
  EXPECT_EQ(request.wr_id, 1U);
  EXPECT_EQ(request.next, nullptr);
  EXPECT_EQ(request.opcode, IBV_WR_SEND_WITH_IMM);
  ASSERT_EQ(elements.size(), 1U);
  EXPECT_EQ(elements[0].addr, reinterpret_cast<std::uintptr_t>(buffer.data()));
  EXPECT_EQ(elements[0].length, 64U);
  EXPECT_EQ(elements[0].lkey, region.lkey().value());
}

TEST_F(queue_pair_test, posts_receives_to_the_other_queue) {
  ASSERT_TRUE(qp.post(recv_wr{.id = wr_id(2), .into = region.scatter()}));

  ASSERT_EQ(device.recvs.size(), 1U);
  EXPECT_EQ(device.recvs[0].request.wr_id, 2U);
  EXPECT_EQ(device.recvs[0].request.next, nullptr);
  EXPECT_EQ(device.recvs[0].elements.at(0).length, 64U);
  EXPECT_THAT(device.sends, IsEmpty());
}

TEST_F(queue_pair_test, uses_its_own_inline_limit) {
  const auto post = [&](std::size_t bytes) {
    EXPECT_TRUE(qp.post(send_wr{.from = region.gather(std::span(buffer).first(bytes)),
                                .flags = send_flag::inline_if_fits}));
    return device.sends.back().request.send_flags;
  };

  EXPECT_EQ(qp.max_inline(), 16U);
  EXPECT_EQ(post(15), unsigned{IBV_SEND_INLINE});
  EXPECT_EQ(post(16), unsigned{IBV_SEND_INLINE});
  EXPECT_EQ(post(17), 0U);
}

TEST_F(queue_pair_test, a_full_queue_is_retryable_and_says_how_to_empty_it) {
  device.attributes.qp_state = IBV_QPS_RTS;
  device.accepts = 0;

  const auto send = qp.post(send_wr{});
  const auto recv = qp.post(recv_wr{});

  EXPECT_EQ(send.error(), std::errc::not_enough_memory);
  EXPECT_EQ(send.error().category(), error_category::retryable);
  EXPECT_THAT(send.error().problem(), HasSubstr("send queue is full (4 requests)"));
  EXPECT_THAT(send.error().hint(), HasSubstr("poll"));
  EXPECT_FALSE(send.error().first_not_posted().has_value()) << "only lists have positions";
  EXPECT_THAT(recv.error().problem(), HasSubstr("recv queue is full (4 requests)"));
}

TEST_F(queue_pair_test, a_post_in_the_wrong_state_names_the_state) {
  device.accepts = 0;
  device.refusal = EINVAL;
  device.attributes.qp_state = IBV_QPS_INIT;

  const auto early = qp.post(send_wr{});
  EXPECT_EQ(early.error().category(), error_category::misuse);
  EXPECT_THAT(early.error().problem(), HasSubstr("is in state init"));
  EXPECT_THAT(early.error().hint(), AllOf(HasSubstr("init"), HasSubstr("connect()")));

  device.attributes.qp_state = IBV_QPS_ERR;
  const auto late = qp.post(recv_wr{});
  EXPECT_EQ(late.error().category(), error_category::gone);
  EXPECT_THAT(late.error().hint(), HasSubstr("reset()"));
}

TEST_F(queue_pair_test, too_many_elements_are_counted_for_the_caller) {
  device.accepts = 0;
  device.refusal = EINVAL;
  const std::array<gather_element, 3> gathers{};
  const std::array<scatter_element, 3> scatters{};

  const auto send = qp.post(send_wr{.from = gathers});
  EXPECT_THAT(send.error().problem(),
              HasSubstr("3 elements, but the queue pair was created for 2"));
  EXPECT_THAT(send.error().hint(), HasSubstr("max_send_sge"));

  const auto recv = qp.post(recv_wr{.into = scatters});
  EXPECT_THAT(recv.error().hint(), HasSubstr("max_recv_sge"));
}

TEST_F(queue_pair_test, too_many_inline_bytes_are_counted_for_the_caller) {
  device.accepts = 0;
  device.refusal = ENOMEM;

  const auto failed = qp.post(send_wr{.from = region.gather(), .flags = send_flag::inline_data});

  EXPECT_EQ(failed.error().category(), error_category::misuse);
  EXPECT_THAT(failed.error().problem(),
              HasSubstr("64 bytes inline, but the queue pair was created for 16"));
}

TEST_F(queue_pair_test, refusals_are_understood_however_they_are_reported) {
  device.accepts = 0;
  device.attributes.qp_state = IBV_QPS_RTS;
  for (const int refusal : {EIO, -EIO}) {
    device.refusal = refusal;
    EXPECT_EQ(qp.post(send_wr{}).error(), std::errc::io_error);
  }
}

// ── making, changing, connecting
// ──────────────────────────────────────────────────────────────────────

TEST_F(queue_pair_test, grants_at_least_what_was_asked_for) {
  EXPECT_EQ(qp.capabilities(), (qp_capabilities{.max_send_wr = 4,
                                                .max_recv_wr = 4,
                                                .max_send_sge = 2,
                                                .max_recv_sge = 2,
                                                .max_inline = 16}));
  EXPECT_EQ(device.attributes.cap.max_send_wr, 5U) << "drain() needs a place of its own";
  EXPECT_EQ(qp.type(), qp_type::rc);
  EXPECT_EQ(qp.number(), qpn(device.qp_num));
  EXPECT_EQ(qp.pd(), setup.pd);
  EXPECT_EQ(qp.send_cq(), setup.cq);
  EXPECT_EQ(qp.recv_cq(), setup.cq);
}

TEST_F(queue_pair_test, oversized_requests_are_answered_with_the_limits) {
  setup.card.refuse("ibv_create_qp", EINVAL);

  const auto failed =
      setup.pd.create_qp({.send_cq = setup.cq,
                          .recv_cq = setup.cq,
                          .capabilities = {.max_send_wr = 2000, .max_recv_sge = 9}});

  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().problem(), AllOf(HasSubstr("max_send_wr 2000 exceeds 1024"),
                                              HasSubstr("max_recv_sge 9 exceeds 8"),
                                              HasSubstr("fake0"), Not(HasSubstr("max_recv_wr"))));
  EXPECT_THAT(failed.error().hint(), AllOf(HasSubstr("max_send_wr of at most 1024"),
                                           HasSubstr("max_recv_sge of at most 8")));
}

TEST_F(queue_pair_test, needs_both_completion_queues_of_its_own_device) {
  fake_setup other;

  EXPECT_THAT(setup.pd.create_qp({.send_cq = setup.cq}).error().problem(),
              HasSubstr("both be given"));
  EXPECT_THAT(setup.pd.create_qp({.send_cq = setup.cq, .recv_cq = other.cq}).error().problem(),
              HasSubstr("another context"));
}

TEST_F(queue_pair_test, modify_hands_over_exactly_the_mask) {
  ASSERT_TRUE(qp.modify(
      {.state = qp_state::init, .pkey_index = std::uint16_t{0}, .port = std::uint8_t{1}}));

  EXPECT_THAT(device.modifications, ElementsAre(IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT));
}

TEST_F(queue_pair_test, a_refused_transition_names_what_is_missing_and_what_is_too_much) {
  setup.card.refuse("ibv_modify_qp", EINVAL);

  const auto failed =
      qp.modify({.state = qp_state::init, .port = std::uint8_t{1}, .sq_psn = psn(1)});

  EXPECT_EQ(failed.error().operation(), "ibv_modify_qp");
  EXPECT_EQ(failed.error().problem(),
            "rc from reset to init lacks access|pkey_index and must not have sq_psn");
}

TEST_F(queue_pair_test, a_refused_transition_that_looks_right_shows_its_values) {
  setup.card.refuse("ibv_modify_qp", EINVAL);

  EXPECT_THAT(qp.to_error().error().problem(), HasSubstr("state=error"));
}

TEST_F(queue_pair_test, connects_in_three_steps_with_what_both_sides_can) {
  ASSERT_TRUE(qp.connect(peer(), {.max_rd_atomic = {}}));

  ASSERT_EQ(device.modifications.size(), 3U);
  for (const auto& [step, from, to] : {std::tuple{0U, qp_state::reset, qp_state::init},
                                       {1U, qp_state::init, qp_state::rtr},
                                       {2U, qp_state::rtr, qp_state::rts}}) {
    EXPECT_EQ(explain_transition(qp_type::rc, from, to,
                                 qp_attribute_mask::from_bits(device.modifications[step])),
              "");
  }
  EXPECT_EQ(device.attributes.max_rd_atomic, 4) << "no more than the peer can answer";
  EXPECT_EQ(qp.state().value(), qp_state::rts);
}

TEST_F(queue_pair_test, the_path_leads_to_the_peer_with_the_smaller_mtu) {
  ASSERT_TRUE(qp.to_rtr(peer(), {.traffic_class = 96}));

  EXPECT_EQ(device.attributes.dest_qp_num, 0x22U);
  EXPECT_EQ(device.attributes.rq_psn, 0x333U);
  EXPECT_EQ(device.attributes.path_mtu, IBV_MTU_512);
  EXPECT_EQ(gid(device.attributes.ah_attr.grh.dgid), peer().gid);
  EXPECT_EQ(device.attributes.ah_attr.grh.sgid_index, 1) << "the GID of the port's table";
  EXPECT_EQ(device.attributes.ah_attr.grh.traffic_class, 96);
}

TEST_F(queue_pair_test, a_peer_that_cannot_be_reached_is_refused_with_the_reason) {
  auto other_layer = peer();
  other_layer.link_layer = link_layer::infiniband;
  auto other_family = peer();
  other_family.gid = gid::parse("fd77::1").value();
  auto nowhere = peer();
  nowhere.gid = {};

  EXPECT_THAT(qp.connect(other_layer).error().problem(), HasSubstr("link layer"));
  EXPECT_THAT(qp.connect(other_family).error().problem(), HasSubstr("IPv4"));
  EXPECT_THAT(qp.connect(nowhere).error().problem(), HasSubstr("no GID"));
}

TEST_F(queue_pair_test, port_zero_is_refused_before_the_device_is_asked) {
  EXPECT_THAT(qp.connect(peer(), {.port = 0}).error().message(),
              AllOf(HasSubstr("fake0 has no port 0"), HasSubstr("count from 1")));
  EXPECT_THAT(qp.endpoint({.port = 2}).error().problem(), HasSubstr("no port 2"));
  EXPECT_THAT(device.modifications, IsEmpty());
}

TEST_F(queue_pair_test, the_endpoint_tells_what_connect_will_use) {
  const auto mine = qp.endpoint().value();
  ASSERT_TRUE(qp.connect(peer()));

  EXPECT_EQ(mine.number, qp.number());
  EXPECT_EQ(mine.first_psn.value(), device.attributes.sq_psn);
  EXPECT_EQ(describe(mine.gid), "::ffff:10.0.0.1");
  EXPECT_EQ(mine.mtu, mtu::mtu_1024);
  EXPECT_EQ(mine.responder_resources, 16);
  EXPECT_EQ(qp.endpoint().value(), mine) << "asked twice, it says the same";
}

TEST_F(queue_pair_test, a_reset_gives_a_new_first_psn_that_connect_uses) {
  ASSERT_TRUE(qp.connect(peer()));
  const auto before = qp.endpoint().value();

  // Of 24 random bits: that three in a row are equal does not happen.
  bool changed = false;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(qp.reset());
    changed = changed || qp.endpoint().value().first_psn != before.first_psn;
  }
  const auto after = qp.endpoint().value();
  ASSERT_TRUE(qp.connect(peer()));

  EXPECT_TRUE(changed);
  EXPECT_EQ(after.first_psn.value(), device.attributes.sq_psn);
}

TEST_F(queue_pair_test, a_queue_pair_that_is_connected_is_told_to_be_reset_first) {
  device.attributes.qp_state = IBV_QPS_RTS;
  setup.card.refuse("ibv_modify_qp", EINVAL);

  const auto again = qp.connect(peer());

  EXPECT_EQ(again.error().category(), error_category::misuse);
  EXPECT_THAT(again.error().problem(), HasSubstr("is in state rts"));
  EXPECT_THAT(again.error().hint(), HasSubstr("reset() it first"));
}

TEST_F(queue_pair_test, an_iwarp_queue_pair_is_not_connected_by_hand) {
  fake_device card;
  card.device->transport_type = IBV_TRANSPORT_IWARP;
  const auto ctx = card.open();
  const auto cq = ctx.create_cq({}).value();
  const auto iwarp = ctx.alloc_pd().value().create_qp({.send_cq = cq, .recv_cq = cq}).value();

  EXPECT_EQ(iwarp.connect(peer()).error().category(), error_category::unsupported);
  EXPECT_THAT(iwarp.endpoint().error().hint(), HasSubstr("rdma_cm"));
}

TEST_F(queue_pair_test, a_datagram_one_has_a_queue_key_and_no_path) {
  const auto ud = setup.make_qp({}, qp_type::ud);

  ASSERT_TRUE(ud.connect(peer(), {.queue_key = qkey(7)}));

  const auto& steps = fake_device::of(ud).modifications;
  EXPECT_THAT(steps, ElementsAre(IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
                                 IBV_QP_STATE, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

TEST_F(queue_pair_test, is_described_with_number_type_state_and_peer) {
  EXPECT_EQ(describe(queue_pair()), "queue_pair (empty)");
  EXPECT_EQ(describe(qp), "queue_pair " + describe(qp.number()) + " rc reset on fake0");

  ASSERT_TRUE(qp.to_rtr(peer(), {}));

  EXPECT_EQ(describe(qp),
            "queue_pair " + describe(qp.number()) + " rc rtr → 0x22 at ::ffff:10.0.0.2 on fake0");
}

// ── adopting and ending
// ───────────────────────────────────────────────────────────────────────────────

TEST_F(queue_pair_test, an_adopted_one_ends_by_the_given_function) {
  auto foreign = std::make_unique<fake_qp>();
  foreign->context = setup.ctx.native();
  foreign->pd = setup.pd.native();
  foreign->send_cq = foreign->recv_cq = setup.cq.native();
  foreign->attributes.cap.max_inline_data = 99;
  int destroyed = 0;
  {
    const auto adopted =
        queue_pair::adopt(foreign.get(), {.pd = setup.pd, .send_cq = setup.cq, .recv_cq = setup.cq},
                          {.destroy = [&] { return ++destroyed, 0; }})
            .value();
    EXPECT_EQ(adopted.max_inline(), 99U);
  }
  EXPECT_EQ(destroyed, 1);
  EXPECT_THAT(setup.card.ended, IsEmpty());
}

TEST_F(queue_pair_test, adopting_with_the_wrong_parents_is_refused) {
  fake_setup other;

  EXPECT_FALSE(
      queue_pair::adopt(nullptr, {.pd = setup.pd, .send_cq = setup.cq, .recv_cq = setup.cq})
          .has_value());
  EXPECT_FALSE(queue_pair::adopt(&device, {.pd = setup.pd}).has_value());
  EXPECT_FALSE(
      queue_pair::adopt(&device, {.pd = other.pd, .send_cq = setup.cq, .recv_cq = setup.cq})
          .has_value());
  EXPECT_THAT(setup.card.ended, IsEmpty()) << "what was not adopted is not destroyed";
}

TEST(queue_pair_lifetime, objects_end_in_the_right_order_whatever_order_the_handles_go) {
  for (int rotation = 0; rotation < 4; ++rotation) {
    fake_device card;
    {
      std::optional<context> ctx = card.open();
      std::optional<protection_domain> pd = ctx->alloc_pd().value();
      std::optional<completion_queue> cq = ctx->create_cq({}).value();
      std::optional<queue_pair> qp = pd->create_qp({.send_cq = *cq, .recv_cq = *cq}).value();
      for (int i = 0; i < 4; ++i) {
        switch ((rotation + i) % 4) {
          case 0:
            ctx.reset();
            break;
          case 1:
            pd.reset();
            break;
          case 2:
            cq.reset();
            break;
          default:
            qp.reset();
            break;
        }
      }
    }
    ASSERT_EQ(card.ended.size(), 3U);
    EXPECT_EQ(card.ended[0], "ibv_destroy_qp") << "rotation " << rotation;
  }
}

TEST_F(queue_pair_test, a_failed_destroy_keeps_its_parents_and_is_logged) {
  const captured_log log;
  const auto number = describe(qp.number());
  auto* const block = &detail::block_of(qp);
  setup.card.refuse("ibv_destroy_qp", EBUSY);

  qp = {};
  setup.pd = {};
  setup.cq = {};
  region = {};

  EXPECT_THAT(setup.card.ended, ElementsAre("ibv_dereg_mr"))
      << "the domain and the queue must stay";
  EXPECT_THAT(log.lines(),
              ElementsAre(AllOf(HasSubstr("ibv_destroy_qp(queue_pair " + number + " on fake0)"),
                                HasSubstr("errno 16"))));
  delete &device;  // what the test leaked on purpose
  delete block;
}

TEST_F(queue_pair_test, drain_waits_for_everything_and_hands_on_what_it_finds) {
  ibv_wc pending{};
  pending.wr_id = 42;
  pending.status = IBV_WC_WR_FLUSH_ERR;
  pending.qp_num = device.qp_num;
  fake_device::of(setup.cq).completions.push_back(pending);
  device.attributes.qp_state = IBV_QPS_RTS;
  std::vector<wr_id> seen;

  ASSERT_TRUE(
      qp.drain([&](const work_completion& completion) { seen.push_back(completion.id()); }));

  EXPECT_THAT(seen, ElementsAre(wr_id(42))) << "without its own markers";
  EXPECT_EQ(qp.state().value(), qp_state::error);
  EXPECT_EQ(device.sends.size(), 1U);
  EXPECT_EQ(device.recvs.size(), 1U);
}

TEST_F(queue_pair_test, draining_what_was_never_connected_does_nothing) {
  EXPECT_TRUE(qp.drain());
  EXPECT_THAT(device.modifications, IsEmpty());
  EXPECT_THAT(device.sends, IsEmpty());
}

TEST_F(queue_pair_test, drain_times_out) {
  device.attributes.qp_state = IBV_QPS_RTS;
  completion_queue silent = setup.ctx.create_cq({}).value();
  device.send_cq = silent.native();  // as if another thread polled the marker away

  const auto failed = qp.drain({}, std::chrono::milliseconds(5));

  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::timed_out);
  EXPECT_THAT(failed.error().problem(), HasSubstr("send queue"));
}

TEST_F(queue_pair_test, drain_with_the_longest_time_does_not_overflow_into_the_past) {
  device.attributes.qp_state = IBV_QPS_RTS;

  EXPECT_TRUE(qp.drain({}, std::chrono::milliseconds::max()));
}
