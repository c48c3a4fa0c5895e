// UD: datagrams to any address.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

constexpr std::size_t grh_bytes = 40;
constexpr qkey key{0x11111111};

class datagrams : public ::testing::Test {
 protected:
  void SetUp() override {
    RDMAXX_NEEDS(capability::ud);
    ctx_ = device_under_test::get().open();
  }

  [[nodiscard]] pair_side ready_side(const qp_connect_options& options = {}) const {
    auto side = unconnected_side(ctx_, {.type = qp_type::ud});
    side.qp.connect({}, options).value();
    return side;
  }

  /// The path to another queue pair on the same port.
  [[nodiscard]] static address_handle way_from(const pair_side& side, const gid_entry& own) {
    return side.pd
        .create_ah(
            {.destination = own.address, .source_gid_index = static_cast<std::uint8_t>(own.index)})
        .value();
  }

  [[nodiscard]] gid_entry own_gid(const std::optional<gid>& like = {}) const {
    return pick_gid(ctx_, 1, like).value();
  }

  context ctx_;
};

TEST_F(datagrams, a_datagram_arrives_after_its_grh) {
  const auto a = ready_side();
  const auto b = ready_side();
  const auto to_b = way_from(a, own_gid());
  const auto from = a.local_memory(200);
  const auto into = b.local_memory(grh_bytes + 300);
  fill_pattern(from.bytes(), 1);

  b.qp.post(recv_wr{.id = wr_id{1}, .into = into.scatter()}).value();
  a.qp.post(ud_send_wr{.id = wr_id{2},
                       .from = from.gather(),
                       .to = to_b,
                       .remote_queue_pair = b.qp.number(),
                       .remote_queue_key = key,
                       .imm = 0xabcd})
      .value();

  const auto received = wait_for_success(b.recv_cq);
  EXPECT_EQ(wait_for_success(a.send_cq).id(), wr_id{2});
  EXPECT_EQ(received.id(), wr_id{1});
  EXPECT_EQ(received.byte_len(), grh_bytes + 200);
  EXPECT_EQ(received.source_queue_pair(), a.qp.number());
  EXPECT_TRUE(received.flags().has(wc_flag::grh));
  EXPECT_EQ(received.imm_data(), 0xabcdU);
  EXPECT_TRUE(same_bytes(into.bytes().subspan(grh_bytes, 200), from.bytes()));
  EXPECT_TRUE(all_zero(into.bytes().last(100)));
}

TEST_F(datagrams, the_receiver_can_answer_the_sender) {
  for (const bool ipv6 : {false, true}) {
    SCOPED_TRACE(ipv6 ? "IPv6" : "IPv4");
    if (ipv6 && !device_under_test::get().has(capability::ipv6_gids)) continue;
    const auto own = ipv6 ? own_gid(gid::parse("fd00::1").value()) : own_gid();
    ASSERT_EQ(own.address.is_ipv4_mapped(), !ipv6);
    const auto a = ready_side();
    const auto b = ready_side();
    const auto to_b = way_from(a, own);
    const auto question = a.local_memory(64);
    const auto answer = a.local_memory(grh_bytes + 64);
    const auto at_b = b.local_memory(grh_bytes + 64);
    fill_pattern(question.bytes(), 2);

    a.qp.post(recv_wr{.into = answer.scatter()}).value();
    b.qp.post(recv_wr{.into = at_b.scatter()}).value();
    a.qp.post(ud_send_wr{.from = question.gather(),
                         .to = to_b,
                         .remote_queue_pair = b.qp.number(),
                         .remote_queue_key = key})
        .value();
    const auto received = wait_for_success(b.recv_cq);
    const auto back = b.pd.create_ah(received, at_b.bytes().first(grh_bytes)).value();
    b.qp.post(ud_send_wr{.from = at_b.gather(at_b.bytes().subspan(grh_bytes)),
                         .to = back,
                         .remote_queue_pair = received.source_queue_pair(),
                         .remote_queue_key = key})
        .value();

    EXPECT_EQ(wait_for_success(a.recv_cq).source_queue_pair(), b.qp.number());
    wait_for_success(a.send_cq);
    wait_for_success(b.send_cq);
    EXPECT_TRUE(same_bytes(answer.bytes().subspan(grh_bytes), question.bytes()));
  }
}

TEST_F(datagrams, one_queue_pair_reaches_many) {
  const auto sender = ready_side();
  const auto way = way_from(sender, own_gid());
  const std::array receivers{ready_side(), ready_side(), ready_side()};
  const auto from = sender.local_memory(3UZ * 8);
  fill_pattern(from.bytes(), 3);

  for (std::size_t i = 0; i < receivers.size(); ++i) {
    const auto& receiver = receivers.at(i);
    const auto into = receiver.local_memory(grh_bytes + 8);
    receiver.qp.post(recv_wr{.into = into.scatter()}).value();
    const auto part = from.bytes().subspan(i * 8, 8);
    sender.qp
        .post(ud_send_wr{.from = from.gather(part),
                         .to = way,
                         .remote_queue_pair = receiver.qp.number(),
                         .remote_queue_key = key})
        .value();
    wait_for_success(sender.send_cq);
    EXPECT_EQ(wait_for_success(receiver.recv_cq).byte_len(), grh_bytes + 8);
    EXPECT_TRUE(same_bytes(into.bytes().last(8), part));
  }
}

TEST_F(datagrams, a_wrong_key_is_dropped) {
  const auto a = ready_side();
  const auto b = ready_side({.queue_key = qkey{0x1234}});
  const auto to_b = way_from(a, own_gid());
  const auto from = a.local_memory(2);
  const auto into = b.local_memory(grh_bytes + 2);
  fill_pattern(from.bytes(), 4);
  const auto send = [&](std::span<const std::byte> bytes, qkey with) {
    a.qp.post(ud_send_wr{.from = from.gather(bytes),
                         .to = to_b,
                         .remote_queue_pair = b.qp.number(),
                         .remote_queue_key = with})
        .value();
    wait_for_success(a.send_cq);
  };

  b.qp.post(recv_wr{.into = into.scatter()}).value();
  send(from.bytes().first(1), key);
  send(from.bytes().last(1), qkey{0x1234});

  EXPECT_EQ(wait_for_success(b.recv_cq).byte_len(), grh_bytes + 1);
  EXPECT_EQ(into.bytes()[grh_bytes], from.bytes()[1]);
  EXPECT_TRUE(completions_in(b.recv_cq).empty());
}

TEST_F(datagrams, the_grh_may_lie_in_an_element_of_its_own) {
  const auto a = ready_side();
  const auto b = ready_side();
  const auto to_b = way_from(a, own_gid());
  const auto from = a.local_memory(100);
  const auto header = b.local_memory(grh_bytes);
  const auto body = b.local_memory(100);
  fill_pattern(from.bytes(), 5);

  const std::array parts{header.scatter(), body.scatter()};
  b.qp.post(recv_wr{.into = parts}).value();
  a.qp.post(ud_send_wr{.from = from.gather(),
                       .to = to_b,
                       .remote_queue_pair = b.qp.number(),
                       .remote_queue_key = key})
      .value();

  EXPECT_EQ(wait_for_success(b.recv_cq).byte_len(), grh_bytes + 100);
  EXPECT_TRUE(same_bytes(body.bytes(), from.bytes()));
}

TEST_F(datagrams, too_few_bytes_for_a_grh_are_refused) {
  const auto side = ready_side();
  const std::array<std::byte, 39> short_header{};

  const auto way = side.pd.create_ah(work_completion(ibv_wc{}), short_header);

  ASSERT_FALSE(way.has_value());
  EXPECT_EQ(way.error().category(), error_category::misuse);
  EXPECT_NE(way.error().hint().find("40"), std::string_view::npos);
}

TEST_F(datagrams, an_address_with_a_port_that_is_not_there_is_refused) {
  const auto side = ready_side();

  const auto way = side.pd.create_ah({.port = 9, .destination = own_gid().address});

  ASSERT_FALSE(way.has_value());
  EXPECT_FALSE(way.error().hint().empty());
}

}  // namespace
}  // namespace rdmaxx::device_tests
