// ibv_cq_ex: reading completions field by field.

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>
#include <vector>

#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "connected_pair.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

constexpr std::uint64_t both_timestamps =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

std::uint64_t wallclock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return (static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000) +
         static_cast<std::uint64_t>(now.tv_nsec);
}

class extended_cq : public testing::Test {
 protected:
  [[nodiscard]] owned<ibv_cq_ex> make(std::uint64_t flags = IBV_WC_STANDARD_FLAGS) const {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 64;
    wanted.wc_flags = flags;
    return own(ibv_create_cq_ex(context_.get(), &wanted));
  }

  /// What ibv_create_cq_ex says to these wishes.
  [[nodiscard]] int refusal(ibv_cq_init_attr_ex wanted) const {
    errno = 0;
    const owned<ibv_cq_ex> made(ibv_create_cq_ex(context_.get(), &wanted));
    return made == nullptr ? errno : 0;
  }

  /// Waits for the first completion: the queue is being read afterwards.
  static void start(ibv_cq_ex* cq) {
    ibv_poll_cq_attr how{};
    const auto deadline = std::chrono::steady_clock::now() + patience;
    int found = ibv_start_poll(cq, &how);
    while (found == ENOENT && std::chrono::steady_clock::now() < deadline) {
      found = ibv_start_poll(cq, &how);
    }
    ASSERT_EQ(found, 0);
  }

  owned<ibv_context> context_ = open_device();
};

TEST_F(extended_cq, an_empty_queue_has_no_entry) {
  const auto cq = make();
  ibv_poll_cq_attr how{};

  EXPECT_EQ(ibv_start_poll(cq.get(), &how), ENOENT);
  EXPECT_EQ(ibv_start_poll(cq.get(), &how), ENOENT) << "the first one left nothing locked";
}

TEST_F(extended_cq, an_unknown_wish_of_the_reader_is_refused) {
  const auto cq = make();
  ibv_poll_cq_attr how{.comp_mask = 1};

  EXPECT_EQ(ibv_start_poll(cq.get(), &how), EINVAL);
}

TEST_F(extended_cq, every_field_of_a_receive_is_there) {
  const auto cq = make();
  const connected_pair pair(context_.get(), {.all_completions = ibv_cq_ex_to_cq(cq.get())});
  const buffer from(pair.a.domain(), 5000);
  const buffer into(pair.b.domain(), 6000);

  ASSERT_EQ(post_receive(pair.b.qp.get(), 77, {into.sge()}), 0);
  auto unsignaled = send(1, {from.sge()}).imm(0xcafe);
  unsignaled.wr.send_flags = 0;
  ASSERT_EQ(unsignaled.post(pair.a.qp.get()), 0);
  start(cq.get());

  EXPECT_EQ(cq->wr_id, 77U);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq.get()), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_vendor_err(cq.get()), 0U);
  EXPECT_EQ(ibv_wc_read_byte_len(cq.get()), 5000U);
  EXPECT_EQ(be32toh(ibv_wc_read_imm_data(cq.get())), 0xcafeU);
  EXPECT_EQ(ibv_wc_read_qp_num(cq.get()), pair.b.qp->qp_num);
  EXPECT_EQ(ibv_wc_read_src_qp(cq.get()), pair.a.qp->qp_num);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq.get()), unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(ibv_wc_read_slid(cq.get()), 0U);
  EXPECT_EQ(ibv_wc_read_sl(cq.get()), 0);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq.get()), 0);
  EXPECT_EQ(ibv_next_poll(cq.get()), ENOENT);
  ibv_end_poll(cq.get());
}

TEST_F(extended_cq, entries_come_in_order_and_are_consumed_as_far_as_they_were_read) {
  const auto cq = make();
  const connected_pair pair(context_.get(), {.all_completions = ibv_cq_ex_to_cq(cq.get())});
  const buffer from(pair.a.domain(), 8);
  const buffer to(pair.b.domain(), 8);
  for (std::uint64_t id = 0; id < 5; ++id) {
    ASSERT_EQ(write(id, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
  }

  const auto next = [&] {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (ibv_next_poll(cq.get()) == ENOENT) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
    }
    return true;
  };
  start(cq.get());
  for (std::uint64_t id = 0; id < 3; ++id) {
    EXPECT_EQ(cq->wr_id, id);
    EXPECT_EQ(ibv_wc_read_opcode(cq.get()), IBV_WC_RDMA_WRITE);
    if (id < 2) {
      ASSERT_TRUE(next());
    }
  }
  ibv_end_poll(cq.get());

  const auto rest = wait_for_successes(ibv_cq_ex_to_cq(cq.get()), 2);
  EXPECT_EQ(rest[0].wr_id, 3U);
  EXPECT_EQ(rest[1].wr_id, 4U);
}

TEST_F(extended_cq, a_failure_is_told) {
  const auto cq = make();
  const connected_pair pair(context_.get(), {.all_completions = ibv_cq_ex_to_cq(cq.get())});
  const buffer from(pair.a.domain(), 8);

  ASSERT_EQ(write(3, {from.sge()}, 4096, 1).post(pair.a.qp.get()), 0);
  start(cq.get());

  EXPECT_EQ(cq->wr_id, 3U);
  EXPECT_EQ(cq->status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_wc_read_qp_num(cq.get()), pair.a.qp->qp_num);
  ibv_end_poll(cq.get());
}

TEST_F(extended_cq, what_is_posted_while_reading_completes) {
  const auto cq = make();
  const connected_pair pair(context_.get(), {.all_completions = ibv_cq_ex_to_cq(cq.get())});
  const buffer from(pair.a.domain(), 8);
  const buffer to(pair.b.domain(), 8);
  const auto post = [&](std::uint64_t id) {
    ASSERT_EQ(write(id, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
  };
  post(0);

  std::uint64_t seen = 0;
  while (seen < 200) {
    start(cq.get());
    // What has been read takes up room until the end.
    const auto pause = seen + 30;
    do {
      EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
      EXPECT_EQ(cq->wr_id, seen);
      post(++seen);
    } while (seen < pause && ibv_next_poll(cq.get()) == 0);
    ibv_end_poll(cq.get());
  }
  wait_for_success(ibv_cq_ex_to_cq(cq.get()));
}

TEST_F(extended_cq, several_threads_read_every_entry_once) {
  constexpr int threads = 3;
  constexpr std::uint64_t count = 600;
  const auto cq = make();
  const connected_pair pair(context_.get(), {.all_completions = ibv_cq_ex_to_cq(cq.get())});
  const buffer from(pair.a.domain(), 8);
  const buffer to(pair.b.domain(), 8);
  std::atomic<std::uint64_t> seen = 0;
  std::atomic<std::uint64_t> sum = 0;
  {
    std::vector<std::jthread> readers;
    readers.reserve(threads);
    for (int i = 0; i < threads; ++i) {
      readers.emplace_back([&] {
        ibv_poll_cq_attr how{};
        while (seen < count) {
          if (ibv_start_poll(cq.get(), &how) != 0) continue;
          do {
            sum += cq->wr_id;
            ++seen;
          } while (ibv_next_poll(cq.get()) == 0);
          ibv_end_poll(cq.get());
        }
      });
    }
    for (std::uint64_t id = 0; id < count; ++id) {
      auto next = write(id, {from.sge()}, to.address(), to.rkey());
      // Not more than the completion queue holds.
      while (id >= seen + 32) std::this_thread::yield();
      while (next.post(pair.a.qp.get()) == ENOMEM) std::this_thread::yield();
    }
  }
  EXPECT_EQ(seen, count);
  EXPECT_EQ(sum, count * (count - 1) / 2);
}

TEST_F(extended_cq, timestamps_lie_between_what_surrounds_them_and_rise) {
  const auto cq = make(IBV_WC_STANDARD_FLAGS | both_timestamps);
  const connected_pair pair(context_.get(), {.all_completions = ibv_cq_ex_to_cq(cq.get())});
  const buffer from(pair.a.domain(), 8);
  const buffer to(pair.b.domain(), 8);
  const auto before = wallclock_ns();
  for (std::uint64_t id = 0; id < 4; ++id) {
    ASSERT_EQ(write(id, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
  }

  auto last = before;
  for (std::uint64_t id = 0; id < 4; ++id) {
    start(cq.get());
    EXPECT_EQ(cq->wr_id, id);
    EXPECT_GE(ibv_wc_read_completion_wallclock_ns(cq.get()), last);
    EXPECT_EQ(ibv_wc_read_completion_ts(cq.get()), ibv_wc_read_completion_wallclock_ns(cq.get()));
    last = ibv_wc_read_completion_wallclock_ns(cq.get());
    ibv_end_poll(cq.get());
  }
  EXPECT_LE(last, wallclock_ns());
}

TEST_F(extended_cq, the_clock_of_the_timestamps_can_be_read) {
  ibv_values_ex values{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK, .raw_clock = {}};
  const auto before = wallclock_ns();

  ASSERT_EQ(ibv_query_rt_values_ex(context_.get(), &values), 0);

  EXPECT_EQ(values.comp_mask, unsigned{IBV_VALUES_MASK_RAW_CLOCK});
  const auto read = (static_cast<std::uint64_t>(values.raw_clock.tv_sec) * 1'000'000'000) +
                    static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
  EXPECT_GE(read, before);
  EXPECT_LE(read, wallclock_ns());
}

TEST_F(extended_cq, what_it_cannot_tell_is_not_supported) {
  for (const std::uint64_t flag :
       {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO}) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 4;
    wanted.wc_flags = flag;
    EXPECT_EQ(refusal(wanted), EOPNOTSUPP) << flag;
  }
}

TEST_F(extended_cq, what_it_cannot_do_is_not_supported) {
  ibv_cq_init_attr_ex unknown{};
  unknown.cqe = 4;
  unknown.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  unknown.flags = 1U << 30;
  EXPECT_EQ(refusal(unknown), EOPNOTSUPP);

  ibv_cq_init_attr_ex one_thread{};
  one_thread.cqe = 4;
  one_thread.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  one_thread.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  EXPECT_EQ(refusal(one_thread), 0) << "a promise of the user that needs nothing";

  ibv_cq_init_attr_ex parent_domain{};
  parent_domain.cqe = 4;
  parent_domain.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  EXPECT_EQ(refusal(parent_domain), EOPNOTSUPP);
}

TEST_F(extended_cq, one_that_ignores_overruns_keeps_the_newest_without_a_word) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 4;
  wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  wanted.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  const auto cq = own(ibv_create_cq_ex(context_.get(), &wanted));
  auto* const queue = ibv_cq_ex_to_cq(cq.get());
  ibv_poll_cq_attr how{};
  {
    // Queue pairs whose requests complete while they are posted: in the error state.
    const connected_pair pair(context_.get(), {.all_completions = queue});
    auto* const qp = pair.a.qp.get();
    ASSERT_EQ(to_state(IBV_QPS_ERR).apply(qp), 0);
    const auto post = [&](std::uint64_t first, std::uint64_t last) {
      for (auto id = first; id <= last; ++id) ASSERT_EQ(send(id, {}).post(qp), 0);
    };
    const auto room = static_cast<std::uint64_t>(queue->cqe);

    post(1, 3 * room);
    const auto kept = completions_in(queue);
    ASSERT_EQ(kept.size(), room);
    for (std::uint64_t i = 0; i < room; ++i) EXPECT_EQ(kept[i].wr_id, 2 * room + 1 + i);

    // Overwritten under the eyes of a reader.
    post(1, room);
    ASSERT_EQ(ibv_start_poll(cq.get(), &how), 0);
    EXPECT_EQ(cq->wr_id, 1U);
    post(room + 1, room + 3);
    ASSERT_EQ(ibv_next_poll(cq.get()), 0);
    EXPECT_EQ(cq->wr_id, 4U);
    post(room + 4, 3 * room);
    ibv_end_poll(cq.get());
    EXPECT_EQ(completions_in(queue).size(), room);
  }
  EXPECT_FALSE(is_readable(context_->async_fd)) << "no event tells of it";
}

TEST_F(extended_cq, a_size_or_a_vector_that_cannot_be_is_refused) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_.get(), &device), 0);
  ibv_cq_init_attr_ex wanted{};
  EXPECT_EQ(refusal(wanted), EINVAL) << "no entries";
  wanted.cqe = static_cast<std::uint32_t>(device.max_cqe) + 1;
  EXPECT_EQ(refusal(wanted), EINVAL);
  wanted.cqe = 4;
  wanted.comp_vector = static_cast<std::uint32_t>(context_->num_comp_vectors);
  EXPECT_EQ(refusal(wanted), EINVAL);
}

}  // namespace
}  // namespace softverbs::device_tests
