#include <rdmaxx/verbs/qp_attributes.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace rdmaxx;
using testing::HasSubstr;

namespace {

/// One attribute: its bit, a set with nothing else in it, its words, and how C must see it.
struct single {
  qp_attribute bit;
  qp_attributes attributes;
  std::string text;
  std::function<bool(const ibv_qp_attr&)> seen_by_c;
};

const address_vector somewhere{
    .port = 2, .destination = gid(std::array<std::uint8_t, 16>{0xfd, 1}), .source_gid_index = 3};

std::vector<single> every_attribute() {
  using bit = qp_attribute;
  using attr = const ibv_qp_attr&;
  return {
      {bit::state,
       {.state = qp_state::rts},
       "state=rts",
       [](attr c) { return c.qp_state == IBV_QPS_RTS; }},
      {bit::current_state,
       {.current_state = qp_state::sqd},
       "current_state=sqd",
       [](attr c) { return c.cur_qp_state == IBV_QPS_SQD; }},
      {bit::sqd_async_notify,
       {.sqd_async_notify = true},
       "sqd_async_notify=true",
       [](attr c) { return c.en_sqd_async_notify == 1; }},
      {bit::access,
       {.access = access::remote_read | access::remote_write},
       "access=remote_write|remote_read",
       [](attr c) {
         return c.qp_access_flags == (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
       }},
      {bit::pkey_index,
       {.pkey_index = std::uint16_t{0x1234}},
       "pkey_index=4660",
       [](attr c) { return c.pkey_index == 0x1234; }},
      {bit::port, {.port = std::uint8_t{2}}, "port=2", [](attr c) { return c.port_num == 2; }},
      {bit::queue_key,
       {.queue_key = qkey(0xdeadbeef)},
       "queue_key=0xdeadbeef",
       [](attr c) { return c.qkey == 0xdeadbeef; }},
      {bit::path,
       {.path = somewhere},
       "path=" + describe(somewhere),
       [](attr c) {
         return c.ah_attr.port_num == 2 && c.ah_attr.grh.sgid_index == 3 &&
                gid(c.ah_attr.grh.dgid) == somewhere.destination;
       }},
      {bit::path_mtu,
       {.path_mtu = mtu::mtu_2048},
       "path_mtu=2048",
       [](attr c) { return c.path_mtu == IBV_MTU_2048; }},
      {bit::ack_timeout,
       {.ack_timeout = ack_timeout::from_exponent(17)},
       "ack_timeout=537 ms (exponent 17)",
       [](attr c) { return c.timeout == 17; }},
      {bit::retry_count,
       {.retry_count = std::uint8_t{6}},
       "retry_count=6",
       [](attr c) { return c.retry_cnt == 6; }},
      {bit::rnr_retry,
       {.rnr_retry = std::uint8_t{5}},
       "rnr_retry=5",
       [](attr c) { return c.rnr_retry == 5; }},
      {bit::rq_psn,
       {.rq_psn = psn(0xabc)},
       "rq_psn=0xabc",
       [](attr c) { return c.rq_psn == 0xabc; }},
      {bit::max_rd_atomic,
       {.max_rd_atomic = std::uint8_t{4}},
       "max_rd_atomic=4",
       [](attr c) { return c.max_rd_atomic == 4; }},
      {bit::alternate_path,
       {.alternate_path =
            alternate_path{
                .path = somewhere, .pkey_index = 9, .ack_timeout = ack_timeout::from_exponent(11)}},
       "alternate_path=" +
           describe(alternate_path{
               .path = somewhere, .pkey_index = 9, .ack_timeout = ack_timeout::from_exponent(11)}),
       [](attr c) {
         return c.alt_ah_attr.grh.sgid_index == 3 && c.alt_port_num == 2 && c.alt_pkey_index == 9 &&
                c.alt_timeout == 11;
       }},
      {bit::min_rnr_timer,
       {.min_rnr_timer = rnr_timer::from_code(12)},
       "min_rnr_timer=0.64 ms (code 12)",
       [](attr c) { return c.min_rnr_timer == 12; }},
      {bit::sq_psn,
       {.sq_psn = psn(0xdef)},
       "sq_psn=0xdef",
       [](attr c) { return c.sq_psn == 0xdef; }},
      {bit::max_dest_rd_atomic,
       {.max_dest_rd_atomic = std::uint8_t{3}},
       "max_dest_rd_atomic=3",
       [](attr c) { return c.max_dest_rd_atomic == 3; }},
      {bit::path_migration,
       {.path_migration = migration_state::armed},
       "path_migration=armed",
       [](attr c) { return c.path_mig_state == IBV_MIG_ARMED; }},
      {bit::capabilities,
       {.capabilities = qp_capabilities{.max_send_wr = 1,
                                        .max_recv_wr = 2,
                                        .max_send_sge = 3,
                                        .max_recv_sge = 4,
                                        .max_inline = 5}},
       "capabilities=max_send_wr 1 max_recv_wr 2 max_send_sge 3 max_recv_sge 4 max_inline 5",
       [](attr c) {
         return c.cap.max_send_wr == 1 && c.cap.max_recv_wr == 2 && c.cap.max_send_sge == 3 &&
                c.cap.max_recv_sge == 4 && c.cap.max_inline_data == 5;
       }},
      {bit::destination,
       {.destination = qpn(0x11)},
       "destination=0x11",
       [](attr c) { return c.dest_qp_num == 0x11; }},
      {bit::rate_limit,
       {.rate_limit_kbps = 1000U},
       "rate_limit_kbps=1000",
       [](attr c) { return c.rate_limit == 1000; }},
  };
}

qp_attribute_mask all_bits() {
  qp_attribute_mask all;
  for (const auto& one : every_attribute()) all |= one.bit;
  return all;
}

}  // namespace

TEST(qp_attributes, the_table_of_this_test_has_every_attribute_once) {
  EXPECT_EQ(every_attribute().size(), 22U);
  EXPECT_EQ(all_bits().count(), 22);
}

TEST(qp_attributes, nothing_set_is_an_empty_mask) {
  EXPECT_TRUE(qp_attributes{}.mask().empty());
  EXPECT_EQ(describe(qp_attributes{}), "none");
}

TEST(qp_attributes, each_one_alone_sets_exactly_its_bit) {
  for (const auto& one : every_attribute())
    EXPECT_EQ(one.attributes.mask(), qp_attribute_mask(one.bit)) << one.text;
}

TEST(qp_attributes, each_one_alone_is_described_by_name_and_value) {
  for (const auto& one : every_attribute()) EXPECT_EQ(describe(one.attributes), one.text);
}

TEST(qp_attributes, each_one_alone_fills_its_c_member_and_no_other) {
  for (const auto& one : every_attribute()) {
    const auto native = one.attributes.native();
    const auto others = all_bits() - one.bit;

    EXPECT_TRUE(one.seen_by_c(native)) << one.text;
    EXPECT_EQ(describe(qp_attributes::from_native(native, others)),
              describe(qp_attributes::from_native({}, others)))
        << one.text << " changed another attribute";
  }
}

TEST(qp_attributes, each_one_alone_survives_the_way_through_the_c_type) {
  for (const auto& one : every_attribute()) {
    const auto back = qp_attributes::from_native(one.attributes.native(), one.bit);

    EXPECT_EQ(back.mask(), one.attributes.mask()) << one.text;
    EXPECT_EQ(describe(back), one.text);
  }
}

TEST(qp_attributes, from_native_takes_only_what_the_mask_names) {
  const auto native =
      qp_attributes{
          .state = qp_state::rts, .ack_timeout = ack_timeout::from_exponent(9), .sq_psn = psn(4)}
          .native();

  const auto taken =
      qp_attributes::from_native(native, {qp_attribute::ack_timeout, qp_attribute::sq_psn});

  EXPECT_EQ(describe(taken), "ack_timeout=2.1 ms (exponent 9) sq_psn=0x4");
  EXPECT_TRUE(qp_attributes::from_native(native, {}).mask().empty());
}

TEST(qp_attributes, false_and_zero_are_values_too) {
  const qp_attributes zeros{
      .sqd_async_notify = false, .pkey_index = std::uint16_t{0}, .sq_psn = psn(0)};

  EXPECT_EQ(zeros.mask(), (qp_attribute_mask{qp_attribute::sqd_async_notify,
                                             qp_attribute::pkey_index, qp_attribute::sq_psn}));
  EXPECT_EQ(describe(zeros), "sqd_async_notify=false pkey_index=0 sq_psn=0x0");
}

// ── transitions
// ───────────────────────────────────────────────────────────────────────────────────────

namespace {

struct step {
  qp_type type;
  qp_state from;
  qp_state to;
  qp_attribute_mask required;
};

std::vector<step> way_to_rts() {
  using enum qp_attribute;
  using s = qp_state;
  return {
      {qp_type::rc, s::reset, s::init, {pkey_index, port, access}},
      {qp_type::rc,
       s::init,
       s::rtr,
       {path, path_mtu, destination, rq_psn, max_dest_rd_atomic, min_rnr_timer}},
      {qp_type::rc, s::rtr, s::rts, {ack_timeout, retry_count, rnr_retry, sq_psn, max_rd_atomic}},
      {qp_type::uc, s::reset, s::init, {pkey_index, port, access}},
      {qp_type::uc, s::init, s::rtr, {path, path_mtu, destination, rq_psn}},
      {qp_type::uc, s::rtr, s::rts, {sq_psn}},
      {qp_type::ud, s::reset, s::init, {pkey_index, port, queue_key}},
      {qp_type::ud, s::init, s::rtr, {}},
      {qp_type::ud, s::rtr, s::rts, {sq_psn}},
  };
}

const std::vector all_states{qp_state::reset, qp_state::init, qp_state::rtr,  qp_state::rts,
                             qp_state::sqd,   qp_state::sqe,  qp_state::error};

}  // namespace

TEST(qp_transition, the_way_to_rts_needs_exactly_what_the_specification_says) {
  for (const auto& [type, from, to, required] : way_to_rts()) {
    const auto rule = transition(type, from, to);

    EXPECT_TRUE(rule.legal);
    EXPECT_EQ(rule.required, required) << describe(type) << " to " << describe(to);
    EXPECT_FALSE(rule.optional.has_any(required)) << "an attribute is either required or optional";
    EXPECT_EQ(explain_transition(type, from, to, required | qp_attribute::state), "");
    EXPECT_EQ(explain_transition(type, from, to, required | rule.optional | qp_attribute::state),
              "");
  }
}

TEST(qp_transition, every_state_leads_to_reset_and_to_error_with_nothing_but_the_state) {
  for (const auto type : {qp_type::rc, qp_type::uc, qp_type::ud, qp_type::raw_packet}) {
    for (const auto from : all_states) {
      for (const auto to : {qp_state::reset, qp_state::error}) {
        EXPECT_TRUE(transition(type, from, to).legal);
        EXPECT_EQ(explain_transition(type, from, to, qp_attribute::state), "");
      }
    }
  }
}

TEST(qp_transition, a_sender_can_be_drained_and_go_on) {
  for (const auto type : {qp_type::rc, qp_type::uc, qp_type::ud}) {
    EXPECT_EQ(explain_transition(type, qp_state::rts, qp_state::sqd,
                                 qp_attribute::state | qp_attribute::sqd_async_notify),
              "");
    EXPECT_EQ(explain_transition(type, qp_state::sqd, qp_state::rts, qp_attribute::state), "");
    EXPECT_EQ(explain_transition(type, qp_state::rts, qp_state::rts, qp_attribute::state), "");
  }
}

TEST(qp_transition, only_unreliable_senders_recover_from_a_send_queue_error) {
  EXPECT_FALSE(transition(qp_type::rc, qp_state::sqe, qp_state::rts).legal);
  EXPECT_TRUE(transition(qp_type::uc, qp_state::sqe, qp_state::rts).legal);
  EXPECT_TRUE(transition(qp_type::ud, qp_state::sqe, qp_state::rts).legal);
}

TEST(qp_transition, each_missing_attribute_is_named) {
  for (const auto& [type, from, to, required] : way_to_rts()) {
    for (const auto& one : every_attribute()) {
      if (!required.has(one.bit)) continue;
      EXPECT_EQ(explain_transition(type, from, to, (required - one.bit) | qp_attribute::state),
                std::string(describe(type)) + " from " + std::string(describe(from)) + " to " +
                    std::string(describe(to)) + " lacks " + std::string(describe(one.bit)));
    }
  }
}

TEST(qp_transition, each_excess_attribute_is_named) {
  for (const auto& [type, from, to, required] : way_to_rts()) {
    const auto allowed = required | transition(type, from, to).optional | qp_attribute::state;
    for (const auto& one : every_attribute()) {
      if (allowed.has(one.bit)) continue;
      EXPECT_EQ(explain_transition(type, from, to, required | one.bit),
                std::string(describe(type)) + " from " + std::string(describe(from)) + " to " +
                    std::string(describe(to)) + " must not have " + std::string(describe(one.bit)));
    }
  }
}

TEST(qp_transition, missing_and_excess_are_named_together) {
  using enum qp_attribute;

  EXPECT_EQ(
      explain_transition(qp_type::ud, qp_state::reset, qp_state::init, {state, pkey_index, access}),
      "ud from reset to init lacks port|queue_key and must not have access");
}

TEST(qp_transition, an_illegal_one_says_so) {
  EXPECT_EQ(explain_transition(qp_type::rc, qp_state::reset, qp_state::rts, qp_attribute::state),
            "a rc queue pair does not go from reset to rts");
}

TEST(qp_transition, the_states_cannot_be_skipped_or_walked_backwards) {
  using s = qp_state;
  for (const auto type : {qp_type::rc, qp_type::uc, qp_type::ud}) {
    for (const auto& [from, to] : {std::pair{s::reset, s::rtr},
                                   {s::reset, s::rts},
                                   {s::init, s::rts},
                                   {s::rtr, s::init},
                                   {s::rts, s::init},
                                   {s::rts, s::rtr},
                                   {s::error, s::init},
                                   {s::error, s::rts},
                                   {s::reset, s::sqd},
                                   {s::init, s::sqd},
                                   {s::rts, s::sqe},
                                   {s::sqd, s::rtr}}) {
      EXPECT_FALSE(transition(type, from, to).legal)
          << describe(type) << ' ' << describe(from) << ' ' << describe(to);
    }
  }
}
