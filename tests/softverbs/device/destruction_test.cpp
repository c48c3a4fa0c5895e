// The end of objects while others work with them.

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "connected_pair.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

constexpr int rounds = 30;

TEST(destruction, of_the_peer_of_a_queue_pair_that_sends) {
  const auto context = open_device();
  for (int round = 0; round < rounds; ++round) {
    connected_pair pair(context.get(), {.timeout = 5, .retry_cnt = 1});
    const buffer from(pair.a.domain(), 20000);
    const buffer to(pair.b.domain(), 20000);
    std::atomic<int> done = 0;
    {
      const std::jthread writer([&] {
        for (;;) {
          EXPECT_EQ(write(1, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
          const auto status = wait_for_one(pair.a.send_cq.get()).status;
          ++done;
          if (status == IBV_WC_SUCCESS) continue;
          EXPECT_EQ(status, IBV_WC_RETRY_EXC_ERR);
          return;
        }
      });
      while (done < 3) std::this_thread::yield();
      pair.b.qp = nullptr;
    }
  }
}

TEST(destruction, of_a_queue_pair_with_work_under_way) {
  const auto context = open_device();
  for (int round = 0; round < rounds; ++round) {
    connected_pair pair(context.get());
    const buffer from(pair.a.domain(), 100'000);
    const buffer into(pair.a.domain(), 100'000);
    const buffer to(pair.b.domain(), 100'000);
    std::atomic<bool> started = false;
    std::atomic<bool> stop = false;
    {
      // b is busy with a's requests, a and its completions end meanwhile.
      const std::jthread poller([&] {
        ibv_wc wc{};
        while (!stop) {
          ibv_poll_cq(pair.b.recv_cq.get(), 1, &wc);
          started = true;
        }
      });
      while (!started) std::this_thread::yield();
      for (std::uint64_t id = 0; id < 8; ++id) {
        ASSERT_EQ(write(id, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
        ASSERT_EQ(read(id, {into.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
      }
      pair.a.qp = nullptr;
      pair.a.send_cq = nullptr;
      pair.a.recv_cq = nullptr;
      stop = true;
    }
  }
}

TEST(destruction, of_a_region_that_is_written) {
  const auto context = open_device();
  for (int round = 0; round < rounds; ++round) {
    connected_pair pair(context.get());
    const buffer from(pair.a.domain(), 10000);
    auto to = std::make_unique<buffer>(pair.b.domain(), 10000);
    const auto address = to->address();
    const auto rkey = to->rkey();
    std::atomic<int> done = 0;
    {
      const std::jthread writer([&] {
        for (;;) {
          EXPECT_EQ(write(1, {from.sge()}, address, rkey).post(pair.a.qp.get()), 0);
          const auto status = wait_for_one(pair.a.send_cq.get()).status;
          ++done;
          if (status == IBV_WC_SUCCESS) continue;
          EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
          return;
        }
      });
      while (done < 3) std::this_thread::yield();
      to = nullptr;  // its memory, too
    }
  }
}

TEST(destruction, of_queue_pairs_that_send_to_each_other_by_two_threads) {
  const auto context = open_device();
  for (int round = 0; round < rounds; ++round) {
    auto pair =
        std::make_unique<connected_pair>(context.get(), pair_options{.timeout = 5, .retry_cnt = 0});
    const buffer a(pair->a.domain(), 5000);
    const buffer b(pair->b.domain(), 5000);
    const auto work = [](side& own_side, const buffer& from, const buffer& to) {
      for (std::uint64_t id = 0; id < 20; ++id) {
        EXPECT_EQ(write(id, {from.sge()}, to.address(), to.rkey()).post(own_side.qp.get()), 0);
      }
      own_side.qp = nullptr;
    };
    const std::jthread one([&] { work(pair->a, a, b); });
    const std::jthread two([&] { work(pair->b, b, a); });
  }
}

TEST(destruction, of_contexts_and_everything_in_them_by_many_threads) {
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < rounds / 3; ++round) {
        const connected_pair pair;
        const buffer memory(pair.a.domain(), 3000);
        const buffer there(pair.b.domain(), 3000);
        EXPECT_EQ(write(1, {memory.sge()}, there.address(), there.rkey()).post(pair.a.qp.get()), 0);
        wait_for_success(pair.a.send_cq.get());
        // This one is left to its fate.
        EXPECT_EQ(send(2, {memory.sge()}).post(pair.a.qp.get()), 0);
      }
    });
  }
}

TEST(destruction, out_of_order_is_refused_until_the_users_have_gone) {
  auto context = open_device();
  auto pd = own(ibv_alloc_pd(context.get()));
  auto cq = own(ibv_create_cq(context.get(), 4, nullptr, nullptr, 0));
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq.get();
  wanted.qp_type = IBV_QPT_RC;
  auto qp = own(ibv_create_qp(pd.get(), &wanted));
  EXPECT_EQ(ibv_destroy_cq(cq.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
}

}  // namespace
}  // namespace softverbs::device_tests
