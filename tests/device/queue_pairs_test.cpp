// queue_pair: creation, state transitions, connecting, adoption.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

class queue_pairs : public device_test {
 protected:
  protection_domain pd = ctx.alloc_pd().value();    // NOLINT(readability-identifier-naming)
  completion_queue cq = ctx.create_cq({}).value();  // NOLINT(readability-identifier-naming)

  [[nodiscard]] result<queue_pair> create(const qp_capabilities& wanted,
                                          qp_type type = qp_type::rc) const {
    return pd.create_qp({.type = type, .send_cq = cq, .recv_cq = cq, .capabilities = wanted});
  }

  static void expect_bytes_flow(const pair_side& a, const pair_side& b) {
    const auto from = a.local_memory(64);
    const auto into = b.local_memory(64);
    fill_pattern(from.bytes(), 1);
    b.qp.post(recv_wr{.into = into.scatter()}).value();
    a.qp.post(send_wr{.from = from.gather()}).value();
    wait_for_success(b.recv_cq);
    wait_for_success(a.send_cq);
    EXPECT_TRUE(same_bytes(into.bytes(), from.bytes()));
  }
};

// ── creation
// ────────────────────────────────────────────────────────────────────────────────────────

TEST_F(queue_pairs, have_at_least_the_capabilities_asked_for) {
  const qp_capabilities wanted{
      .max_send_wr = 17, .max_recv_wr = 33, .max_send_sge = 2, .max_recv_sge = 3, .max_inline = 16};

  const auto qp = create(wanted).value();

  EXPECT_GE(qp.capabilities().max_send_wr, wanted.max_send_wr);
  EXPECT_GE(qp.capabilities().max_recv_wr, wanted.max_recv_wr);
  EXPECT_GE(qp.capabilities().max_send_sge, wanted.max_send_sge);
  EXPECT_GE(qp.capabilities().max_recv_sge, wanted.max_recv_sge);
  EXPECT_GE(qp.max_inline(), wanted.max_inline);
  EXPECT_EQ(qp.type(), qp_type::rc);
  EXPECT_EQ(qp.pd(), pd);
  EXPECT_EQ(qp.send_cq(), cq);
  EXPECT_EQ(qp.recv_cq(), cq);
}

TEST_F(queue_pairs, have_numbers_of_their_own) {
  const auto first = create({}).value();
  const auto second = create({}).value();

  EXPECT_NE(first.number(), second.number());
  EXPECT_LE(first.number().value(), 0xffffffU);
}

TEST_F(queue_pairs, requests_beyond_the_limits_are_errors_that_name_them) {
  const auto& limits = dut.attributes();
  struct wish {
    qp_capabilities wanted;
    std::string name;
    std::uint32_t limit;
  };
  for (const auto& [wanted, name, limit] :
       {wish{{.max_send_wr = limits.max_qp_wr + 1}, "max_send_wr", limits.max_qp_wr},
        wish{{.max_recv_wr = limits.max_qp_wr + 1}, "max_recv_wr", limits.max_qp_wr},
        wish{{.max_send_sge = limits.max_sge + 1}, "max_send_sge", limits.max_sge},
        wish{{.max_recv_sge = limits.max_sge + 1}, "max_recv_sge", limits.max_sge}}) {
    const auto qp = create(wanted);

    ASSERT_FALSE(qp.has_value()) << name;
    EXPECT_NE(qp.error().problem().find(name), std::string_view::npos) << qp.error();
    EXPECT_NE(qp.error().hint().find(std::to_string(limit)), std::string_view::npos) << qp.error();
  }
}

TEST_F(queue_pairs, more_inline_data_than_the_device_has_is_an_error_with_a_hint) {
  const auto qp = create({.max_inline = 1U << 24U});

  ASSERT_FALSE(qp.has_value());
  EXPECT_FALSE(qp.error().hint().empty()) << qp.error();
}

TEST_F(queue_pairs, need_completion_queues_of_their_own_context) {
  const auto other = dut.open();
  const auto foreign = other.create_cq({}).value();

  const auto without = pd.create_qp({});
  const auto with_foreign = pd.create_qp({.send_cq = foreign, .recv_cq = foreign});

  ASSERT_FALSE(without.has_value());
  EXPECT_EQ(without.error().category(), error_category::misuse);
  ASSERT_FALSE(with_foreign.has_value());
  EXPECT_EQ(with_foreign.error().category(), error_category::misuse);
}

TEST_F(queue_pairs, of_a_type_that_the_device_lacks_are_errors_with_a_hint) {
  if (dut.has(capability::ud))
    GTEST_SKIP() << "the device lacks no type of queue pair that is tried here";

  const auto qp = create({}, qp_type::ud);

  ASSERT_FALSE(qp.has_value());
  EXPECT_NE(qp.error().hint().find("ud"), std::string_view::npos) << qp.error();
}

// ── states
// ──────────────────────────────────────────────────────────────────────────────────────────

TEST_F(queue_pairs, pass_through_the_states_to_rts) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto side = unconnected_side(ctx);
  const auto self = side.qp.endpoint().value();

  EXPECT_EQ(side.qp.state().value(), qp_state::reset);
  side.qp.to_init({}).value();
  EXPECT_EQ(side.qp.state().value(), qp_state::init);
  side.qp.to_rtr(self, {}).value();
  EXPECT_EQ(side.qp.state().value(), qp_state::rtr);
  side.qp.to_rts(self, {}).value();
  EXPECT_EQ(side.qp.state().value(), qp_state::rts);
  side.qp.to_error().value();
  EXPECT_EQ(side.qp.state().value(), qp_state::error);
  side.qp.reset().value();
  EXPECT_EQ(side.qp.state().value(), qp_state::reset);
}

TEST_F(queue_pairs, of_every_type_become_ready_by_connect) {
  RDMAXX_NEEDS(capability::manual_connection);
  for (const auto type : {qp_type::rc, qp_type::uc, qp_type::ud}) {
    SCOPED_TRACE(describe(type));
    if (type == qp_type::uc && !dut.has(capability::uc)) continue;
    if (type == qp_type::ud && !dut.has(capability::ud)) continue;
    const auto side = unconnected_side(ctx, {.type = type});

    side.qp.connect(side.qp.endpoint().value()).value();

    EXPECT_EQ(side.qp.state().value(), qp_state::rts);
  }
}

TEST_F(queue_pairs, tell_how_they_are_connected) {
  RDMAXX_NEEDS(capability::manual_connection);
  const connected_pair pair({.connect = {.ack_timeout = ack_timeout::from_exponent(15),
                                         .retry_count = 5,
                                         .rnr_retry = 4,
                                         .min_rnr_timer = rnr_timer::from_code(9)}});
  const auto peer = pair.b.qp.endpoint().value();

  const auto found = pair.a.qp.query().value();

  EXPECT_EQ(found.state, qp_state::rts);
  EXPECT_EQ(found.port, 1);
  EXPECT_EQ(found.destination, pair.b.qp.number());
  ASSERT_TRUE(found.path.has_value());
  EXPECT_EQ(found.path->destination, peer.gid);
  EXPECT_EQ(found.path_mtu, peer.mtu);
  EXPECT_EQ(found.ack_timeout, ack_timeout::from_exponent(15));
  EXPECT_EQ(found.retry_count, 5);
  EXPECT_EQ(found.rnr_retry, 4);
  EXPECT_EQ(found.min_rnr_timer, rnr_timer::from_code(9));
  EXPECT_EQ(found.rq_psn, peer.first_psn);
  EXPECT_EQ(found.capabilities, pair.a.qp.capabilities());
}

TEST_F(queue_pairs, a_transition_that_does_not_exist_is_named) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto qp = create({}).value();

  const auto changed = qp.modify({.state = qp_state::rts});

  ASSERT_FALSE(changed.has_value());
  EXPECT_EQ(changed.error().category(), error_category::misuse);
  EXPECT_NE(changed.error().problem().find("from reset to rts"), std::string_view::npos)
      << changed.error();
}

TEST_F(queue_pairs, a_transition_names_the_attributes_it_lacks) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto qp = create({}).value();

  const auto changed = qp.modify({.state = qp_state::init, .pkey_index = 0});

  ASSERT_FALSE(changed.has_value());
  EXPECT_NE(changed.error().problem().find("lacks"), std::string_view::npos) << changed.error();
  EXPECT_NE(changed.error().problem().find("port"), std::string_view::npos) << changed.error();
  EXPECT_NE(changed.error().problem().find("access"), std::string_view::npos) << changed.error();
  EXPECT_EQ(changed.error().problem().find("pkey_index"), std::string_view::npos)
      << changed.error();
  EXPECT_EQ(qp.state().value(), qp_state::reset);
}

TEST_F(queue_pairs, a_transition_names_the_attributes_it_must_not_have) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto qp = create({}).value();

  const auto changed = qp.modify({.state = qp_state::init,
                                  .access = access_flags(),
                                  .pkey_index = 0,
                                  .port = 1,
                                  .ack_timeout = ack_timeout::from_exponent(14)});

  ASSERT_FALSE(changed.has_value());
  EXPECT_NE(changed.error().problem().find("must not have ack_timeout"), std::string_view::npos)
      << changed.error();
  EXPECT_EQ(changed.error().problem().find("lacks"), std::string_view::npos) << changed.error();
}

// ── connecting
// ──────────────────────────────────────────────────────────────────────────────────────

TEST_F(queue_pairs, an_endpoint_survives_its_bytes_and_still_connects) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto a = unconnected_side(ctx);
  const auto b = unconnected_side(ctx);
  const auto endpoint_a = a.qp.endpoint().value();
  const auto endpoint_b = b.qp.endpoint().value();

  const auto decoded_a = qp_endpoint::from_bytes(endpoint_a.to_bytes()).value();
  const auto decoded_b = qp_endpoint::from_bytes(endpoint_b.to_bytes()).value();
  EXPECT_EQ(decoded_a, endpoint_a);
  EXPECT_EQ(decoded_a.number, a.qp.number());
  a.qp.connect(decoded_b).value();
  b.qp.connect(decoded_a).value();

  expect_bytes_flow(a, b);
}

TEST_F(queue_pairs, an_endpoint_does_not_change_between_calls) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto side = unconnected_side(ctx);

  EXPECT_EQ(side.qp.endpoint().value(), side.qp.endpoint().value());
}

TEST_F(queue_pairs, a_reset_gives_a_new_first_psn) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto side = unconnected_side(ctx);
  std::set<std::uint32_t> numbers;

  for (int i = 0; i < 4; ++i) {
    numbers.insert(side.qp.endpoint().value().first_psn.value());
    side.qp.to_init({}).value();
    side.qp.reset().value();
  }

  EXPECT_GE(numbers.size(), 3U) << "of 24 bits each: two that are equal are rare, three are a bug";
}

TEST_F(queue_pairs, can_be_reset_and_connected_to_somebody_else) {
  RDMAXX_NEEDS(capability::manual_connection);
  const connected_pair pair;
  const auto third = unconnected_side(ctx);
  expect_bytes_flow(pair.a, pair.b);

  pair.a.qp.reset().value();
  const auto endpoint_a = pair.a.qp.endpoint().value();
  pair.a.qp.connect(third.qp.endpoint().value()).value();
  third.qp.connect(endpoint_a).value();

  expect_bytes_flow(pair.a, third);
  expect_bytes_flow(third, pair.a);
}

TEST_F(queue_pairs, a_connected_queue_pair_cannot_be_connected_again) {
  RDMAXX_NEEDS(capability::manual_connection);
  const connected_pair pair;

  const auto again = pair.a.qp.connect(pair.b.qp.endpoint().value());

  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().category(), error_category::misuse);
  EXPECT_NE(again.error().problem().find("is in state rts"), std::string_view::npos)
      << again.error();
  EXPECT_NE(again.error().hint().find("reset() it first"), std::string_view::npos) << again.error();
}

TEST_F(queue_pairs, bad_addresses_are_errors_with_a_hint) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto side = unconnected_side(ctx);
  const auto self = side.qp.endpoint().value();
  const auto beyond = ctx.query_port().value().gid_table_length;
  auto without_gid = self;
  without_gid.gid = {};

  const std::vector<result<void>> refused{
      side.qp.connect(self, {.port = 0}),
      side.qp.connect(self, {.port = 200}),
      side.qp.connect(self, {.gid_index = beyond}),
      side.qp.connect(without_gid),
  };

  for (const auto& outcome : refused) {
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().category(), error_category::misuse) << outcome.error();
    EXPECT_FALSE(outcome.error().hint().empty()) << outcome.error();
    side.qp.reset().value();
  }
  EXPECT_FALSE(side.qp.endpoint({.port = 0}).has_value());
  EXPECT_FALSE(side.qp.endpoint({.gid_index = beyond}).has_value());
}

TEST_F(queue_pairs, addresses_of_different_families_are_an_error_that_shows_both) {
  RDMAXX_NEEDS(capability::ipv6_gids);
  const auto a = unconnected_side(ctx);
  const auto b = unconnected_side(ctx);
  const auto own = pick_gid(ctx, 1, gid::parse("2001:db8::1").value()).value();
  const auto ipv6 = b.qp.endpoint({.gid_index = own.index}).value();

  const auto connected = a.qp.connect(ipv6);

  ASSERT_FALSE(connected.has_value());
  EXPECT_EQ(connected.error().category(), error_category::misuse);
  EXPECT_NE(connected.error().problem().find(describe(own.address)), std::string_view::npos)
      << connected.error();
  EXPECT_NE(connected.error().hint().find("gid_index"), std::string_view::npos)
      << connected.error();
}

TEST_F(queue_pairs, iwarp_says_that_it_needs_the_connection_manager) {
  if (dut.has(capability::manual_connection)) GTEST_SKIP() << "the device lacks iWARP";
  const auto qp = create({}).value();

  const auto endpoint = qp.endpoint();
  const auto connected = qp.connect({});

  ASSERT_FALSE(endpoint.has_value());
  EXPECT_EQ(endpoint.error().category(), error_category::unsupported);
  EXPECT_NE(endpoint.error().hint().find("rdma_cm"), std::string_view::npos) << endpoint.error();
  ASSERT_FALSE(connected.has_value());
  EXPECT_NE(connected.error().hint().find("rdma_cm"), std::string_view::npos) << connected.error();
}

// ── handles
// ─────────────────────────────────────────────────────────────────────────────────────────

TEST_F(queue_pairs, work_after_they_were_moved) {
  connected_pair pair;
  const auto number = pair.a.qp.number();

  auto moved = std::move(pair.a.qp);
  EXPECT_FALSE(pair.a.qp);  // NOLINT(bugprone-use-after-move): that is the subject
  EXPECT_EQ(moved.number(), number);
  pair.a.qp = std::move(moved);

  expect_bytes_flow(pair.a, pair.b);
}

TEST_F(queue_pairs, are_adopted_from_the_c_api_and_destroyed_with_the_handle) {
  ibv_qp_init_attr wishes{};
  wishes.send_cq = wishes.recv_cq = cq.native();
  wishes.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  wishes.qp_type = IBV_QPT_RC;
  ibv_qp* const native = ibv_create_qp(pd.native(), &wishes);
  ASSERT_NE(native, nullptr);
  int destroyed = 0;

  {
    const auto qp = queue_pair::adopt(native, {.pd = pd, .send_cq = cq, .recv_cq = cq},
                                      {.destroy =
                                           [&] {
                                             ++destroyed;
                                             return ibv_destroy_qp(native);
                                           }})
                        .value();
    EXPECT_EQ(qp.number().value(), native->qp_num);
    EXPECT_GE(qp.capabilities().max_send_wr, 4U);
    EXPECT_EQ(destroyed, 0);
  }

  EXPECT_EQ(destroyed, 1);
}

TEST_F(queue_pairs, adoption_refuses_parents_that_are_not_the_queue_pairs) {
  const auto mine = create({}).value();
  const auto other_pd = ctx.alloc_pd().value();
  const auto other_cq = ctx.create_cq({}).value();

  for (const auto& adopted :
       {queue_pair::adopt(nullptr, {.pd = pd, .send_cq = cq, .recv_cq = cq},
                          {.kind = ownership::borrowed})
            .has_value(),
        queue_pair::adopt(mine.native(), {.pd = other_pd, .send_cq = cq, .recv_cq = cq},
                          {.kind = ownership::borrowed})
            .has_value(),
        queue_pair::adopt(mine.native(), {.pd = pd, .send_cq = other_cq, .recv_cq = cq},
                          {.kind = ownership::borrowed})
            .has_value(),
        queue_pair::adopt(mine.native(), {}, {.kind = ownership::borrowed}).has_value()}) {
    EXPECT_FALSE(adopted);
  }
}

}  // namespace
}  // namespace rdmaxx::device_tests
