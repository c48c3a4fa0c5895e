// Adopting C objects, and events of C objects that are not adopted.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <rdmaxx/rdmaxx.hpp>

#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

class adoption_of_c_objects : public device_test {
 protected:
  const adoption lent{.kind = ownership::borrowed};
};

/// A queue pair of plain C that flushes a receive into `cq`.
class foreign_queue_pair {
 public:
  foreign_queue_pair(ibv_pd* pd, ibv_cq* cq) {
    ibv_qp_init_attr wishes{};
    wishes.send_cq = cq;
    wishes.recv_cq = cq;
    wishes.cap = {.max_send_wr = 1,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    wishes.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(pd, &wishes);
    check(qp_ != nullptr ? 0 : -1, "ibv_create_qp").value();
    ibv_qp_attr init{};
    init.qp_state = IBV_QPS_INIT;
    init.port_num = 1;
    check(ibv_modify_qp(qp_, &init,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
          "ibv_modify_qp")
        .value();
  }
  foreign_queue_pair(const foreign_queue_pair&) = delete;
  foreign_queue_pair& operator=(const foreign_queue_pair&) = delete;
  ~foreign_queue_pair() { ibv_destroy_qp(qp_); }

  void flush_a_receive() const {
    ibv_recv_wr request{};
    ibv_recv_wr* refused = nullptr;
    check(ibv_post_recv(qp_, &request, &refused), "ibv_post_recv").value();
    ibv_qp_attr failed{};
    failed.qp_state = IBV_QPS_ERR;
    check(ibv_modify_qp(qp_, &failed, IBV_QP_STATE), "ibv_modify_qp").value();
  }

 private:
  ibv_qp* qp_ = nullptr;
};

TEST_F(adoption_of_c_objects, events_of_a_foreign_queue_are_recognised) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto pd = ctx.alloc_pd().value();
  auto* const native = ibv_create_comp_channel(ctx.native());
  ASSERT_NE(native, nullptr);
  const auto channel = completion_channel::adopt(native, ctx).value();
  std::array<std::byte, 64> theirs{};  // their cq_context belongs to foreign code
  auto* const foreign = ibv_create_cq(ctx.native(), 4, theirs.data(), native, 0);
  ASSERT_NE(foreign, nullptr);
  {
    const foreign_queue_pair qp(pd.native(), foreign);
    ASSERT_EQ(ibv_req_notify_cq(foreign, 0), 0);
    qp.flush_a_receive();

    const auto event = channel.get_event(patience);

    ASSERT_TRUE(event.has_value());
    EXPECT_FALSE(event->queue());
    EXPECT_EQ(event->native(), foreign);
  }
  EXPECT_EQ(ibv_destroy_cq(foreign), 0) << "its event was acknowledged, or this would wait";
}

TEST_F(adoption_of_c_objects, an_adopted_queue_reports_and_its_events_name_it) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto pd = ctx.alloc_pd().value();
  const auto channel = ctx.create_completion_channel().value();
  auto* const native = ibv_create_cq(ctx.native(), 4, nullptr, channel.native(), 0);
  ASSERT_NE(native, nullptr);
  {
    const auto cq = completion_queue::adopt(native, ctx, channel, lent).value();
    const foreign_queue_pair qp(pd.native(), native);
    cq.req_notify().value();
    qp.flush_a_receive();

    EXPECT_EQ(channel.get_event(patience).value().queue(), cq);
    EXPECT_EQ(wait_for_one(cq).status(), wc_status::flushed);
    EXPECT_GE(cq.capacity(), 4U);
  }
  EXPECT_EQ(ibv_destroy_cq(native), 0) << "it was handed back with its events acknowledged";
}

TEST_F(adoption_of_c_objects, an_adopted_queue_is_destroyed_with_its_last_handle) {
  const auto channel = ctx.create_completion_channel().value();
  auto* const native = ibv_create_cq(ctx.native(), 4, nullptr, channel.native(), 0);
  ASSERT_NE(native, nullptr);

  auto cq = completion_queue::adopt(native, ctx, channel).value();
  const auto copy = std::exchange(cq, {});

  EXPECT_TRUE(completions_in(copy).empty());
  EXPECT_FALSE(completion_queue::adopt(native, ctx, {}, lent).has_value()) << "another channel";
}

TEST_F(adoption_of_c_objects, an_adopted_shared_receive_queue_takes_receives) {
  const auto pd = ctx.alloc_pd().value();
  ibv_srq_init_attr wishes{};
  wishes.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  auto* const native = ibv_create_srq(pd.native(), &wishes);
  ASSERT_NE(native, nullptr);
  const auto memory = pd.allocate_local({.bytes = 64}).value();

  const auto srq = shared_receive_queue::adopt(native, pd).value();

  ibv_srq_attr now{};
  const bool device_tells = ibv_query_srq(native, &now) == 0;
  EXPECT_GE(srq.capacity(), device_tells ? 8U : 0U);
  EXPECT_TRUE(srq.post(recv_wr{.into = memory.scatter()}).has_value());
  EXPECT_FALSE(shared_receive_queue::adopt(native, ctx.alloc_pd().value(), lent).has_value());
}

TEST_F(adoption_of_c_objects, an_adopted_region_moves_bytes) {
  const connected_pair pair;
  std::array<std::byte, 64> from{std::byte{1}, std::byte{2}};
  std::array<std::byte, 64> into{};
  const auto adopted = [](const protection_domain& pd, std::span<std::byte> bytes,
                          access_flags access) {
    // By its exported name: the macro ibv_reg_mr tests whether its argument is a constant.
    auto* const native =
        ibv_reg_mr_iova2(pd.native(), bytes.data(), bytes.size(),
                         reinterpret_cast<std::uintptr_t>(bytes.data()), access.bits());
    return memory_region::adopt(native, pd, access).value();
  };
  const auto source = adopted(pair.a.pd, from, {});
  const auto target = adopted(pair.b.pd, into, access::local_write);

  pair.b.qp.post(recv_wr{.into = target.scatter(into)}).value();
  pair.a.qp.post(send_wr{.from = source.gather(from)}).value();

  wait_for_success(pair.b.recv_cq);
  wait_for_success(pair.a.send_cq);
  EXPECT_EQ(into, from);
  EXPECT_FALSE(source.try_scatter(from).has_value()) << "it was registered for reading only";
}

TEST_F(adoption_of_c_objects, queues_are_extended_ones_where_the_device_has_them) {
  const auto cq = ctx.create_cq({.capacity = 4}).value();
  ibv_cq_init_attr_ex wishes{};
  wishes.cqe = 4;
  wishes.wc_flags = IBV_WC_STANDARD_FLAGS;
  auto* const extended = ibv_create_cq_ex(ctx.native(), &wishes);

  EXPECT_EQ(cq.native_extended() != nullptr, extended != nullptr);

  if (extended != nullptr) {
    ibv_poll_cq_attr how{};
    EXPECT_EQ(ibv_start_poll(cq.native_extended(), &how), ENOENT) << "nothing has completed";
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
  }
}

}  // namespace
}  // namespace rdmaxx::device_tests
