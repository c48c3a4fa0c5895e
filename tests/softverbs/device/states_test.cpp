// The states of a queue pair: which way leads where, what each state takes, and what it tells.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using rdmaxx::device_tests::all_zero;
using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::same_bytes;

constexpr std::array all_states{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};
constexpr std::array names{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

class queue_pair_states : public testing::Test {
 protected:
  /// Connected to itself, in the given state; null where the type does not have that state.
  [[nodiscard]] std::unique_ptr<side> in_state(ibv_qp_type type, ibv_qp_state wanted) const {
    if (wanted == IBV_QPS_SQE && type == IBV_QPT_RC) return nullptr;
    auto made = std::make_unique<side>(context_.get(), pair_options{.type = type});
    auto* const qp = made->qp.get();
    const auto step = [](int failure) { EXPECT_EQ(failure, 0); };
    if (wanted == IBV_QPS_RESET) return made;
    step(to_init(type).apply(qp));
    if (wanted == IBV_QPS_INIT) return made;
    step(to_rtr(context_.get(), type, qp->qp_num).apply(qp));
    if (wanted == IBV_QPS_RTR) return made;
    step(to_rts(type).apply(qp));
    if (wanted == IBV_QPS_SQD || wanted == IBV_QPS_ERR) step(to_state(wanted).apply(qp));
    if (wanted == IBV_QPS_SQE) {
      const auto ah = address_of_neighbour(made->domain());
      auto bad = send(1, {{.addr = 4096, .length = 8, .lkey = 1}});
      if (type == IBV_QPT_UD) bad.to(ah.get(), qp->qp_num, queue_key);
      step(bad.post(qp));
      EXPECT_EQ(wait_for_one(made->send_cq.get()).status, IBV_WC_LOC_PROT_ERR);
    }
    EXPECT_EQ(state_of(qp), wanted);
    return made;
  }

  /// Everything that the way from `from` to `to` needs, if there is one.
  [[nodiscard]] modification step(ibv_qp* qp, ibv_qp_state from, ibv_qp_state to) const {
    if (to == IBV_QPS_INIT) return to_init(qp->qp_type);
    if (to == IBV_QPS_RTR) return to_rtr(context_.get(), qp->qp_type, qp->qp_num);
    if (to == IBV_QPS_RTS && from != IBV_QPS_RTS && from != IBV_QPS_SQD && from != IBV_QPS_SQE) {
      return to_rts(qp->qp_type);
    }
    return to_state(to);
  }

  static bool is_legal(ibv_qp_state from, ibv_qp_state to) {
    if (to == IBV_QPS_RESET) return true;
    if (to == IBV_QPS_ERR) return from != IBV_QPS_RESET;
    constexpr std::array<std::pair<ibv_qp_state, ibv_qp_state>, 9> ways{{
        {IBV_QPS_RESET, IBV_QPS_INIT},
        {IBV_QPS_INIT, IBV_QPS_INIT},
        {IBV_QPS_INIT, IBV_QPS_RTR},
        {IBV_QPS_RTR, IBV_QPS_RTS},
        {IBV_QPS_RTS, IBV_QPS_RTS},
        {IBV_QPS_RTS, IBV_QPS_SQD},
        {IBV_QPS_SQD, IBV_QPS_SQD},
        {IBV_QPS_SQD, IBV_QPS_RTS},
        {IBV_QPS_SQE, IBV_QPS_RTS},
    }};
    return std::ranges::find(ways, std::pair(from, to)) != ways.end();
  }

  owned<ibv_context> context_ = open_device();
};

TEST_F(queue_pair_states, only_the_ways_of_the_specification_exist) {
  for (const auto type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    for (const auto from : all_states) {
      for (const auto to : all_states) {
        SCOPED_TRACE(std::string(names.at(from)) + " to " + names.at(to) + ", type " +
                     std::to_string(type));
        const auto made = in_state(type, from);
        if (made == nullptr) continue;
        auto* const qp = made->qp.get();

        EXPECT_EQ(step(qp, from, to).apply(qp), is_legal(from, to) ? 0 : EINVAL);

        EXPECT_EQ(state_of(qp), is_legal(from, to) ? to : from);
        EXPECT_EQ(qp->state, state_of(qp));
      }
    }
  }
}

TEST_F(queue_pair_states, every_required_attribute_is_required_and_no_other_is_taken) {
  for (const auto type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    for (const auto& [from, to] :
         {std::pair(IBV_QPS_RESET, IBV_QPS_INIT), std::pair(IBV_QPS_INIT, IBV_QPS_RTR),
          std::pair(IBV_QPS_RTR, IBV_QPS_RTS)}) {
      const auto made = in_state(type, from);
      auto* const qp = made->qp.get();
      const auto whole = step(qp, from, to);
      for (int bit = 2; bit <= IBV_QP_RATE_LIMIT; bit *= 2) {
        auto part = whole;
        part.mask &= ~bit;
        if (part.mask == whole.mask) continue;
        EXPECT_EQ(part.apply(qp), EINVAL) << names.at(to) << " without attribute " << bit;
      }
      for (const int superfluous : {int{IBV_QP_CAP}, int{IBV_QP_EN_SQD_ASYNC_NOTIFY},
                                    to == IBV_QPS_RTS ? int{IBV_QP_PORT} : int{IBV_QP_SQ_PSN}}) {
        auto more = whole;
        more.mask |= superfluous;
        EXPECT_EQ(more.apply(qp), EINVAL) << names.at(to) << " with attribute " << superfluous;
      }
      EXPECT_EQ(state_of(qp), from);
    }
  }
}

TEST_F(queue_pair_states, values_out_of_range_are_refused_and_change_nothing) {
  const struct {
    const char* what;
    ibv_qp_state to;
    void (*spoil)(ibv_qp_attr&);
  } cases[]{
      {"port", IBV_QPS_INIT, [](ibv_qp_attr& a) { a.port_num = 2; }},
      {"P_Key index", IBV_QPS_INIT, [](ibv_qp_attr& a) { a.pkey_index = 1; }},
      {"access", IBV_QPS_INIT, [](ibv_qp_attr& a) { a.qp_access_flags = 1U << 30; }},
      {"MTU 0", IBV_QPS_RTR, [](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(0); }},
      {"MTU 6", IBV_QPS_RTR, [](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(6); }},
      {"queue pair number", IBV_QPS_RTR, [](ibv_qp_attr& a) { a.dest_qp_num = 1U << 24; }},
      {"reads at the responder", IBV_QPS_RTR, [](ibv_qp_attr& a) { a.max_dest_rd_atomic = 129; }},
      {"RNR timer", IBV_QPS_RTR, [](ibv_qp_attr& a) { a.min_rnr_timer = 32; }},
      {"GID index", IBV_QPS_RTR, [](ibv_qp_attr& a) { a.ah_attr.grh.sgid_index = 200; }},
      {"no GRH", IBV_QPS_RTR, [](ibv_qp_attr& a) { a.ah_attr.is_global = 0; }},
      {"port of the path", IBV_QPS_RTR, [](ibv_qp_attr& a) { a.ah_attr.port_num = 2; }},
      {"timeout", IBV_QPS_RTS, [](ibv_qp_attr& a) { a.timeout = 32; }},
      {"retries", IBV_QPS_RTS, [](ibv_qp_attr& a) { a.retry_cnt = 8; }},
      {"RNR retries", IBV_QPS_RTS, [](ibv_qp_attr& a) { a.rnr_retry = 8; }},
      {"reads at the requester", IBV_QPS_RTS, [](ibv_qp_attr& a) { a.max_rd_atomic = 129; }},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.what);
    const auto from = static_cast<ibv_qp_state>(each.to - 1);
    const auto made = in_state(IBV_QPT_RC, from);
    auto wanted = step(made->qp.get(), from, each.to);
    each.spoil(wanted.attributes);

    EXPECT_EQ(wanted.apply(made->qp.get()), EINVAL);

    EXPECT_EQ(state_of(made->qp.get()), from);
    EXPECT_EQ(step(made->qp.get(), from, each.to).apply(made->qp.get()), 0);
  }
}

TEST_F(queue_pair_states, a_wrong_idea_of_the_current_state_is_refused) {
  const auto made = in_state(IBV_QPT_RC, IBV_QPS_RTS);
  auto wanted = to_state(IBV_QPS_RTS);
  wanted.mask |= IBV_QP_CUR_STATE;
  wanted.attributes.cur_qp_state = IBV_QPS_SQD;
  EXPECT_EQ(wanted.apply(made->qp.get()), EINVAL);
  wanted.attributes.cur_qp_state = IBV_QPS_RTS;
  EXPECT_EQ(wanted.apply(made->qp.get()), 0);
}

TEST_F(queue_pair_states, what_was_set_is_told) {
  const pair_options options{.access = IBV_ACCESS_REMOTE_READ,
                             .gid_index = ipv6_index,
                             .mtu = IBV_MTU_2048,
                             .first_psn = 0x123456,
                             .max_rd_atomic = 3,
                             .max_dest_rd_atomic = 5,
                             .min_rnr_timer = 7,
                             .timeout = 9,
                             .retry_cnt = 2,
                             .rnr_retry = 1};
  const side made(context_.get(), options);
  auto* const qp = made.qp.get();
  EXPECT_EQ(state_of(qp), IBV_QPS_RESET);
  ASSERT_EQ(to_init(IBV_QPT_RC, options).apply(qp), 0);
  auto told = attributes_of(qp);
  EXPECT_EQ(told.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(told.cur_qp_state, IBV_QPS_INIT);
  EXPECT_EQ(told.port_num, 1);
  EXPECT_EQ(told.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ});
  ASSERT_EQ(to_rtr(context_.get(), IBV_QPT_RC, qp->qp_num, options).apply(qp), 0);
  told = attributes_of(qp);
  EXPECT_EQ(told.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(told.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(told.rq_psn, 0x123456U);
  EXPECT_EQ(told.dest_qp_num, qp->qp_num);
  EXPECT_EQ(told.max_dest_rd_atomic, 5);
  EXPECT_EQ(told.min_rnr_timer, 7);
  EXPECT_EQ(told.ah_attr.is_global, 1);
  EXPECT_EQ(told.ah_attr.grh.sgid_index, ipv6_index);
  const auto gid = gid_of(context_.get(), ipv6_index);
  EXPECT_EQ(std::memcmp(&told.ah_attr.grh.dgid, &gid, sizeof gid), 0);
  ASSERT_EQ(to_rts(IBV_QPT_RC, options).apply(qp), 0);
  told = attributes_of(qp);
  EXPECT_EQ(told.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(told.sq_psn, 0x123456U);
  EXPECT_EQ(told.timeout, 9);
  EXPECT_EQ(told.retry_cnt, 2);
  EXPECT_EQ(told.rnr_retry, 1);
  EXPECT_EQ(told.max_rd_atomic, 3);
  EXPECT_EQ(told.sq_draining, 0);

  auto change = to_state(IBV_QPS_RTS);
  change.mask |= IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
  change.attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  change.attributes.min_rnr_timer = 11;
  ASSERT_EQ(change.apply(qp), 0);
  EXPECT_EQ(attributes_of(qp).qp_access_flags, unsigned{IBV_ACCESS_REMOTE_WRITE});
  EXPECT_EQ(attributes_of(qp).min_rnr_timer, 11);

  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init.send_cq, made.send_cq.get());
  EXPECT_EQ(init.recv_cq, made.recv_cq.get());
  EXPECT_EQ(init.srq, nullptr);
  EXPECT_EQ(init.sq_sig_all, 0);
  EXPECT_GE(init.cap.max_send_wr, options.capacities.max_send_wr);
  EXPECT_GE(init.cap.max_inline_data, options.capacities.max_inline_data);
}

TEST_F(queue_pair_states, each_state_takes_the_requests_that_it_may) {
  std::byte memory[8]{};
  for (const auto state : all_states) {
    SCOPED_TRACE(names.at(state));
    const auto made = in_state(IBV_QPT_UC, state);
    const auto mr = own(ibv_reg_mr(made->domain(), memory, sizeof memory, all_access));
    const ibv_sge element{
        .addr = reinterpret_cast<std::uintptr_t>(memory), .length = 8, .lkey = mr->lkey};
    const bool sends = state != IBV_QPS_RESET && state != IBV_QPS_INIT && state != IBV_QPS_RTR;

    EXPECT_EQ(post_receive(made->qp.get(), 1, {element}), state == IBV_QPS_RESET ? EINVAL : 0);
    EXPECT_EQ(send(2, {element}).post(made->qp.get()), sends ? 0 : EINVAL);

    if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
      const auto flushed = wait_for_one(made->send_cq.get());
      EXPECT_EQ(flushed.wr_id, 2U);
      EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    }
    if (state == IBV_QPS_ERR) {
      const auto flushed = wait_for_one(made->recv_cq.get());
      EXPECT_EQ(flushed.wr_id, 1U);
      EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    }
    ASSERT_EQ(to_state(IBV_QPS_RESET).apply(made->qp.get()), 0);
  }
}

TEST_F(queue_pair_states, a_drained_send_queue_takes_requests_and_carries_them_out_later) {
  connected_pair pair(context_.get());
  buffer from(pair.a.domain(), 64);
  buffer to(pair.b.domain(), 64);
  fill_pattern(from.bytes(), 1);
  auto drained = to_state(IBV_QPS_SQD);
  drained.mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
  drained.attributes.en_sqd_async_notify = 1;
  ASSERT_EQ(drained.apply(pair.a.qp.get()), 0);
  auto event = wait_for_event(context_.get(), IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(event.element.qp, pair.a.qp.get());
  ibv_ack_async_event(&event);

  ASSERT_EQ(write(1, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
  EXPECT_TRUE(completions_in(pair.a.send_cq.get()).empty());
  EXPECT_TRUE(all_zero(to.bytes()));
  EXPECT_EQ(attributes_of(pair.a.qp.get()).sq_draining, 0);

  ASSERT_EQ(to_state(IBV_QPS_RTS).apply(pair.a.qp.get()), 0);
  EXPECT_EQ(wait_for_success(pair.a.send_cq.get()).wr_id, 1U);
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(queue_pair_states, draining_ends_when_what_was_begun_is_done) {
  connected_pair pair(context_.get());
  buffer from(pair.a.domain(), 5000);
  buffer to(pair.b.domain(), 5000);
  fill_pattern(from.bytes(), 1);
  ASSERT_EQ(send(1, {from.sge()}).post(pair.a.qp.get()), 0);  // b has no receive
  auto drained = to_state(IBV_QPS_SQD);
  drained.mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
  drained.attributes.en_sqd_async_notify = 1;
  ASSERT_EQ(drained.apply(pair.a.qp.get()), 0);
  ASSERT_EQ(send(2, {from.sge()}).post(pair.a.qp.get()), 0);
  EXPECT_EQ(attributes_of(pair.a.qp.get()).sq_draining, 1);
  EXPECT_FALSE(is_readable(context_->async_fd));

  ASSERT_EQ(post_receive(pair.b.qp.get(), 3, {to.sge()}), 0);
  EXPECT_EQ(wait_for_success(pair.a.send_cq.get()).wr_id, 1U);
  auto event = wait_for_event(context_.get(), IBV_EVENT_SQ_DRAINED);
  ibv_ack_async_event(&event);
  EXPECT_EQ(attributes_of(pair.a.qp.get()).sq_draining, 0);
  wait_for_success(pair.b.recv_cq.get());
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));

  ASSERT_EQ(post_receive(pair.b.qp.get(), 4, {to.sge()}), 0);
  EXPECT_TRUE(completions_in(pair.b.recv_cq.get()).empty()) << "the second one was not begun";
  ASSERT_EQ(to_state(IBV_QPS_RTS).apply(pair.a.qp.get()), 0);
  EXPECT_EQ(wait_for_success(pair.a.send_cq.get()).wr_id, 2U);
  EXPECT_EQ(wait_for_success(pair.b.recv_cq.get()).wr_id, 4U);
}

TEST_F(queue_pair_states, an_error_flushes_everything_in_order) {
  connected_pair pair(context_.get());
  buffer from(pair.a.domain(), 3000);
  for (std::uint64_t id = 0; id < 5; ++id) {
    ASSERT_EQ(post_receive(pair.a.qp.get(), id, {from.sge()}), 0);
    auto each = send(id, {from.sge()});  // b has no receive
    if (id % 2 == 1) each.wr.send_flags = 0;
    ASSERT_EQ(each.post(pair.a.qp.get()), 0);
  }
  ASSERT_EQ(to_state(IBV_QPS_ERR).apply(pair.a.qp.get()), 0);

  const auto sent = wait_for(pair.a.send_cq.get(), 5);
  const auto received = wait_for(pair.a.recv_cq.get(), 5);
  for (std::uint64_t id = 0; id < 5; ++id) {
    EXPECT_EQ(sent[id].wr_id, id);
    EXPECT_EQ(sent[id].status, IBV_WC_WR_FLUSH_ERR) << "unsignaled ones, too";
    EXPECT_EQ(sent[id].qp_num, pair.a.qp->qp_num);
    EXPECT_EQ(received[id].wr_id, id);
    EXPECT_EQ(received[id].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(received[id].qp_num, pair.a.qp->qp_num);
  }
  EXPECT_TRUE(completions_in(pair.a.send_cq.get()).empty());
  EXPECT_TRUE(completions_in(pair.a.recv_cq.get()).empty());
}

TEST_F(queue_pair_states, reset_forgets_everything_without_a_word) {
  connected_pair pair(context_.get());
  buffer from(pair.a.domain(), 3000);
  buffer to(pair.b.domain(), 3000);
  fill_pattern(from.bytes(), 1);
  ASSERT_EQ(send(1, {from.sge()}).post(pair.a.qp.get()), 0);  // b has no receive
  ASSERT_EQ(post_receive(pair.a.qp.get(), 2, {from.sge()}), 0);
  for (const auto* each : {&pair.a, &pair.b}) {
    ASSERT_EQ(to_state(IBV_QPS_RESET).apply(each->qp.get()), 0);
    EXPECT_EQ(state_of(each->qp.get()), IBV_QPS_RESET);
  }
  // Other numbers than before: a late packet of the old connection must not fit into the new one.
  const pair_options anew{.first_psn = 100};
  connect(pair.a.qp.get(), pair.b.qp->qp_num, anew);
  connect(pair.b.qp.get(), pair.a.qp->qp_num, anew);

  ASSERT_EQ(post_receive(pair.b.qp.get(), 3, {to.sge()}), 0);
  ASSERT_EQ(send(4, {from.sge(0, 100)}).post(pair.a.qp.get()), 0);
  EXPECT_EQ(wait_for_success(pair.a.send_cq.get()).wr_id, 4U);
  EXPECT_EQ(wait_for_success(pair.b.recv_cq.get()).byte_len, 100U);
  ASSERT_EQ(post_receive(pair.a.qp.get(), 5, {from.sge()}), 0);
  ASSERT_EQ(send(6, {to.sge(0, 100)}).post(pair.b.qp.get()), 0);
  EXPECT_EQ(wait_for_success(pair.a.recv_cq.get()).wr_id, 5U);
  EXPECT_TRUE(completions_in(pair.a.send_cq.get()).empty());
  EXPECT_TRUE(completions_in(pair.a.recv_cq.get()).empty());
}

TEST_F(queue_pair_states, full_queues_take_no_more) {
  const connected_pair pair(context_.get());
  const buffer from(pair.a.domain(), 8);
  const auto limits = attributes_of(pair.a.qp.get()).cap;
  for (std::uint32_t i = 0; i < limits.max_send_wr; ++i) {
    ASSERT_EQ(send(i, {from.sge()}).post(pair.a.qp.get()), 0);  // b has no receive
  }
  EXPECT_EQ(send(0, {from.sge()}).post(pair.a.qp.get()), ENOMEM);
  for (std::uint32_t i = 0; i < limits.max_recv_wr; ++i) {
    ASSERT_EQ(post_receive(pair.a.qp.get(), i, {from.sge()}), 0);
  }
  EXPECT_EQ(post_receive(pair.a.qp.get(), 0, {from.sge()}), ENOMEM);
  EXPECT_EQ(send(0, std::vector(limits.max_send_sge + 1, from.sge())).post(pair.b.qp.get()),
            EINVAL);
  EXPECT_EQ(post_receive(pair.b.qp.get(), 0, std::vector(limits.max_recv_sge + 1, from.sge())),
            EINVAL);
}

TEST_F(queue_pair_states, a_list_is_posted_up_to_the_first_bad_request) {
  const connected_pair pair(context_.get());
  buffer from(pair.a.domain(), 8);
  buffer to(pair.b.domain(), 8);
  auto first = write(1, {from.sge()}, to.address(), to.rkey());
  auto second = first;
  second.wr.wr_id = 2;
  second.wr.opcode = IBV_WR_TSO;
  auto third = first;
  for (auto* each : {&first, &second, &third}) {
    each->wr.sg_list = each->elements.data();
    each->wr.num_sge = 1;
  }
  first.wr.next = &second.wr;
  second.wr.next = &third.wr;
  ibv_send_wr* bad = nullptr;

  EXPECT_EQ(ibv_post_send(pair.a.qp.get(), &first.wr, &bad), EINVAL);

  EXPECT_EQ(bad, &second.wr);
  EXPECT_EQ(wait_for_success(pair.a.send_cq.get()).wr_id, 1U);
  EXPECT_TRUE(completions_in(pair.a.send_cq.get()).empty());
}

}  // namespace
}  // namespace softverbs::device_tests
