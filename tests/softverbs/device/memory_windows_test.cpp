// Memory windows: rights to a part of a region, given and taken back by the send queue.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

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

constexpr unsigned window_access =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// b owns memory and windows, a uses them.
class memory_windows : public testing::Test {
 protected:
  void SetUp() override { fill_pattern(here_.bytes(), 1); }

  [[nodiscard]] ibv_mw_bind_info part(std::size_t offset, std::size_t bytes,
                                      unsigned access = window_access) const {
    return {.mr = there_.mr.get(),
            .addr = there_.address(offset),
            .length = bytes,
            .mw_access_flags = access};
  }

  /// Binds a window of type 1 and returns its completion's status.
  ibv_wc_status bind(ibv_mw* mw, const ibv_mw_bind_info& what) const {
    ibv_mw_bind wanted{.wr_id = 5, .send_flags = IBV_SEND_SIGNALED, .bind_info = what};
    EXPECT_EQ(ibv_bind_mw(pair_.b.qp.get(), mw, &wanted), 0);
    const auto done = wait_for_one(pair_.b.send_cq.get());
    EXPECT_EQ(done.wr_id, 5U);
    if (done.status == IBV_WC_SUCCESS) {
      EXPECT_EQ(done.opcode, IBV_WC_BIND_MW);
    }
    return done.status;
  }

  /// Binds a window of type 2.
  ibv_wc_status bind(ibv_mw* mw, std::uint32_t key, const ibv_mw_bind_info& what) const {
    EXPECT_EQ(bind_window(6, mw, key, what).post(pair_.b.qp.get()), 0);
    return wait_for_one(pair_.b.send_cq.get()).status;
  }

  ibv_wc_status invalidate(std::uint32_t key) const {
    EXPECT_EQ(local_invalidate(7, key).post(pair_.b.qp.get()), 0);
    return wait_for_one(pair_.b.send_cq.get()).status;
  }

  ibv_wc_status write_to(std::uint64_t address, std::size_t bytes, std::uint32_t rkey) {
    EXPECT_EQ(write(1, {here_.sge(0, bytes)}, address, rkey).post(pair_.a.qp.get()), 0);
    return wait_for_one(pair_.a.send_cq.get()).status;
  }
  ibv_wc_status read_from(std::uint64_t address, std::size_t bytes, std::uint32_t rkey) {
    EXPECT_EQ(read(1, {here_.sge(4096, bytes)}, address, rkey).post(pair_.a.qp.get()), 0);
    return wait_for_one(pair_.a.send_cq.get()).status;
  }
  ibv_wc_status add_at(std::uint64_t address, std::uint32_t rkey) {
    EXPECT_EQ(fetch_add(1, here_.sge(4096, 8), address, rkey, 1).post(pair_.a.qp.get()), 0);
    return wait_for_one(pair_.a.send_cq.get()).status;
  }

  /// After an error both queue pairs are of no use: the same ones, connected anew.
  void connect_again() {
    for (const auto* each : {&pair_.a, &pair_.b}) {
      ASSERT_EQ(to_state(IBV_QPS_RESET).apply(each->qp.get()), 0);
    }
    connect(pair_.a.qp.get(), pair_.b.qp->qp_num);
    connect(pair_.b.qp.get(), pair_.a.qp->qp_num);
  }

  connected_pair pair_;
  buffer here_{pair_.a.domain(), 8192};
  buffer there_{pair_.b.domain(), 8192};
};

TEST_F(memory_windows, a_window_of_type_1_gives_what_it_was_bound_to) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_1));
  const auto before = mw->rkey;
  ASSERT_EQ(bind(mw.get(), part(1000, 3000)), IBV_WC_SUCCESS);
  EXPECT_NE(mw->rkey, before);
  EXPECT_NE(mw->rkey, there_.rkey());

  EXPECT_EQ(write_to(there_.address(1000), 3000, mw->rkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(same_bytes(there_.bytes(1000, 3000), here_.bytes(0, 3000)));
  EXPECT_TRUE(all_zero(there_.bytes(0, 1000)));
  EXPECT_TRUE(all_zero(there_.bytes(4000, 1000)));
  EXPECT_EQ(read_from(there_.address(1001), 2999, mw->rkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(same_bytes(here_.bytes(4096, 2999), here_.bytes(1, 2999)));
  EXPECT_EQ(add_at(there_.address(1008), mw->rkey), IBV_WC_SUCCESS);
}

TEST_F(memory_windows, a_byte_outside_is_out_of_reach) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_1));
  ASSERT_EQ(bind(mw.get(), part(1000, 100)), IBV_WC_SUCCESS);

  EXPECT_EQ(write_to(there_.address(999), 1, mw->rkey), IBV_WC_REM_ACCESS_ERR);
  connect_again();
  EXPECT_EQ(write_to(there_.address(1000), 101, mw->rkey), IBV_WC_REM_ACCESS_ERR);
  connect_again();
  EXPECT_EQ(read_from(there_.address(1099), 2, mw->rkey), IBV_WC_REM_ACCESS_ERR);
  connect_again();
  EXPECT_EQ(add_at(there_.address(1096), mw->rkey), IBV_WC_REM_ACCESS_ERR);
  connect_again();
  EXPECT_TRUE(all_zero(there_.bytes()));
  EXPECT_EQ(write_to(there_.address(1099), 1, mw->rkey), IBV_WC_SUCCESS);
}

TEST_F(memory_windows, a_right_that_was_not_given_is_missing) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_1));
  for (const unsigned given :
       {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_ATOMIC}) {
    SCOPED_TRACE(given);
    const auto expected = [&](unsigned needed) {
      return given == needed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
    };
    ASSERT_EQ(bind(mw.get(), part(0, 64, given)), IBV_WC_SUCCESS);
    EXPECT_EQ(write_to(there_.address(), 8, mw->rkey), expected(IBV_ACCESS_REMOTE_WRITE));
    connect_again();
    EXPECT_EQ(read_from(there_.address(), 8, mw->rkey), expected(IBV_ACCESS_REMOTE_READ));
    connect_again();
    EXPECT_EQ(add_at(there_.address(), mw->rkey), expected(IBV_ACCESS_REMOTE_ATOMIC));
    connect_again();
  }
}

TEST_F(memory_windows, binding_a_window_of_type_1_again_ends_the_old_key) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_1));
  ASSERT_EQ(bind(mw.get(), part(0, 64)), IBV_WC_SUCCESS);
  const auto old = mw->rkey;
  ASSERT_EQ(bind(mw.get(), part(64, 64)), IBV_WC_SUCCESS);
  ASSERT_NE(mw->rkey, old);

  EXPECT_EQ(write_to(there_.address(64), 64, mw->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(write_to(there_.address(), 8, old), IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(all_zero(there_.bytes(0, 64)));
}

TEST_F(memory_windows, binding_a_window_of_type_1_to_nothing_ends_it) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_1));
  ASSERT_EQ(bind(mw.get(), part(0, 64)), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(there_.mr.get()), EBUSY);

  ASSERT_EQ(bind(mw.get(), part(0, 0)), IBV_WC_SUCCESS);

  EXPECT_EQ(write_to(there_.address(), 8, mw->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(memory_windows, the_new_key_is_known_before_the_binding_is_done) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_1));
  const auto old = mw->rkey;
  ASSERT_EQ(to_state(IBV_QPS_SQD).apply(pair_.b.qp.get()), 0);
  ibv_mw_bind wanted{.wr_id = 5, .send_flags = IBV_SEND_SIGNALED, .bind_info = part(0, 64)};

  ASSERT_EQ(ibv_bind_mw(pair_.b.qp.get(), mw.get(), &wanted), 0);
  const auto key = mw->rkey;
  EXPECT_NE(key, old);
  ASSERT_EQ(to_state(IBV_QPS_RTS).apply(pair_.b.qp.get()), 0);
  wait_for_success(pair_.b.send_cq.get());

  EXPECT_EQ(mw->rkey, key);
  EXPECT_EQ(write_to(there_.address(), 8, key), IBV_WC_SUCCESS);
}

TEST_F(memory_windows, a_window_of_type_1_serves_every_queue_pair_of_its_domain) {
  const connected_pair other(pair_.context, {.same_domain = pair_.b.domain()});
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_1));
  ASSERT_EQ(bind(mw.get(), part(0, 64)), IBV_WC_SUCCESS);

  ASSERT_EQ(write(1, {there_.sge(100, 8)}, there_.address(), mw->rkey).post(other.a.qp.get()), 0);

  EXPECT_EQ(wait_for_one(other.a.send_cq.get()).status, IBV_WC_SUCCESS);
}

TEST_F(memory_windows, a_window_of_type_2_gives_what_it_was_bound_to) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  const auto key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind(mw.get(), key, part(10, 2000)), IBV_WC_SUCCESS);

  EXPECT_EQ(write_to(there_.address(10), 2000, key), IBV_WC_SUCCESS);
  EXPECT_TRUE(same_bytes(there_.bytes(10, 2000), here_.bytes(0, 2000)));
  EXPECT_EQ(read_from(there_.address(10), 2000, key), IBV_WC_SUCCESS);
  EXPECT_EQ(add_at(there_.address(16), key), IBV_WC_SUCCESS);
  EXPECT_EQ(write_to(there_.address(10), 2001, key), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(memory_windows, a_window_of_type_2_belongs_to_the_queue_pair_that_bound_it) {
  const connected_pair other(pair_.context, {.same_domain = pair_.b.domain()});
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  const auto key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind(mw.get(), key, part(0, 64)), IBV_WC_SUCCESS);

  ASSERT_EQ(write(1, {there_.sge(100, 8)}, there_.address(), key).post(other.a.qp.get()), 0);
  EXPECT_EQ(wait_for_one(other.a.send_cq.get()).status, IBV_WC_REM_ACCESS_ERR);

  EXPECT_EQ(write_to(there_.address(), 8, key), IBV_WC_SUCCESS);
}

TEST_F(memory_windows, only_its_own_queue_pair_invalidates_a_window_of_type_2) {
  const connected_pair other(pair_.context, {.same_domain = pair_.b.domain()});
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  const auto key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind(mw.get(), key, part(0, 64)), IBV_WC_SUCCESS);

  ASSERT_EQ(local_invalidate(1, key).post(other.b.qp.get()), 0);
  EXPECT_EQ(wait_for_one(other.b.send_cq.get()).status, IBV_WC_MW_BIND_ERR);

  EXPECT_EQ(write_to(there_.address(), 8, key), IBV_WC_SUCCESS);
}

TEST_F(memory_windows, a_local_invalidation_ends_a_window_of_type_2) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  const auto key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind(mw.get(), key, part(0, 64)), IBV_WC_SUCCESS);
  ASSERT_EQ(invalidate(key), IBV_WC_SUCCESS);

  EXPECT_EQ(write_to(there_.address(), 8, key), IBV_WC_REM_ACCESS_ERR);
  connect_again();
  EXPECT_TRUE(all_zero(there_.bytes()));

  const auto next = ibv_inc_rkey(key);
  ASSERT_EQ(bind(mw.get(), next, part(64, 64)), IBV_WC_SUCCESS) << "it can be bound again";
  EXPECT_EQ(write_to(there_.address(64), 8, next), IBV_WC_SUCCESS);
  EXPECT_EQ(write_to(there_.address(), 8, key), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(memory_windows, a_bound_window_of_type_2_cannot_be_bound_again) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  const auto key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind(mw.get(), key, part(0, 64)), IBV_WC_SUCCESS);

  EXPECT_EQ(bind(mw.get(), ibv_inc_rkey(key), part(0, 64)), IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(state_of(pair_.b.qp.get()), IBV_QPS_ERR);
}

TEST_F(memory_windows, a_message_invalidates_and_the_receiver_is_told_what) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  const auto key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind(mw.get(), key, part(0, 64)), IBV_WC_SUCCESS);
  for (const std::size_t bytes : {3000U, 10U}) {
    SCOPED_TRACE(bytes);
    const bool last = bytes == 10;
    ASSERT_EQ(post_receive(pair_.b.qp.get(), 8, {there_.sge(4096, 4096)}), 0);
    ASSERT_EQ(send(9, {here_.sge(0, bytes)}).invalidating(key).post(pair_.a.qp.get()), 0);
    const auto told = wait_for_one(pair_.b.recv_cq.get());
    if (last) {
      EXPECT_EQ(told.status, IBV_WC_LOC_ACCESS_ERR) << "it has been invalidated before";
      EXPECT_EQ(wait_for_one(pair_.a.send_cq.get()).status, IBV_WC_REM_ACCESS_ERR);
    } else {
      ASSERT_EQ(told.status, IBV_WC_SUCCESS);
      EXPECT_EQ(told.wc_flags, unsigned{IBV_WC_WITH_INV});
      EXPECT_EQ(told.invalidated_rkey, key);
      EXPECT_EQ(told.byte_len, bytes);
      EXPECT_TRUE(same_bytes(there_.bytes(4096, bytes), here_.bytes(0, bytes)));
      wait_for_success(pair_.a.send_cq.get());
    }
  }
}

TEST_F(memory_windows, local_write_may_stand_among_the_rights) {
  const auto of_peers = unsigned{IBV_ACCESS_REMOTE_WRITE} | IBV_ACCESS_LOCAL_WRITE;
  for (const auto type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    SCOPED_TRACE(static_cast<int>(type));
    const auto mw = own(ibv_alloc_mw(pair_.b.domain(), type));
    const ibv_mw_bind_info what{
        .mr = there_.mr.get(), .addr = there_.address(), .length = 64, .mw_access_flags = of_peers};
    auto key = ibv_inc_rkey(mw->rkey);
    EXPECT_EQ(type == IBV_MW_TYPE_1 ? bind(mw.get(), what) : bind(mw.get(), key, what),
              IBV_WC_SUCCESS);
    if (type == IBV_MW_TYPE_1) key = mw->rkey;
    EXPECT_EQ(write_to(there_.address(), 64, key), IBV_WC_SUCCESS);
    EXPECT_EQ(read_from(there_.address(), 64, key), IBV_WC_REM_ACCESS_ERR)
        << "it is no right of the peer";
    connect_again();
  }
}

TEST_F(memory_windows, what_cannot_be_bound_is_a_bind_error) {
  const buffer unbindable(pair_.b.domain(), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  const buffer read_only(pair_.b.domain(), 64, IBV_ACCESS_MW_BIND);
  const buffer elsewhere(pair_.a.domain(), 64);
  const auto of = [](const buffer& whole, std::size_t bytes, unsigned access) {
    return ibv_mw_bind_info{
        .mr = whole.mr.get(), .addr = whole.address(), .length = bytes, .mw_access_flags = access};
  };
  const struct {
    const char* why;
    ibv_mw_bind_info what;
  } cases[]{
      {"the region does not allow windows", of(unbindable, 64, IBV_ACCESS_REMOTE_WRITE)},
      {"the region cannot be written", of(read_only, 64, IBV_ACCESS_REMOTE_WRITE)},
      {"the region cannot be written by atomics", of(read_only, 64, IBV_ACCESS_REMOTE_ATOMIC)},
      {"the region is of another domain", of(elsewhere, 64, IBV_ACCESS_REMOTE_READ)},
      {"the window is longer than the region", of(there_, 8193, IBV_ACCESS_REMOTE_READ)},
      {"such a right does not exist for windows", of(there_, 64, IBV_ACCESS_MW_BIND)},
  };
  for (const auto type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    for (const auto& each : cases) {
      SCOPED_TRACE(each.why);
      // The function itself looks at the domain.
      if (type == IBV_MW_TYPE_1 && each.what.mr == elsewhere.mr.get()) continue;
      const auto mw = own(ibv_alloc_mw(pair_.b.domain(), type));
      const auto status = type == IBV_MW_TYPE_1 ? bind(mw.get(), each.what)
                                                : bind(mw.get(), ibv_inc_rkey(mw->rkey), each.what);
      EXPECT_EQ(status, IBV_WC_MW_BIND_ERR);
      connect_again();
    }
    const auto mw = own(ibv_alloc_mw(pair_.b.domain(), type));
    EXPECT_EQ(type == IBV_MW_TYPE_1 ? bind(mw.get(), of(read_only, 64, IBV_ACCESS_REMOTE_READ))
                                    : bind(mw.get(), ibv_inc_rkey(mw->rkey),
                                           of(read_only, 64, IBV_ACCESS_REMOTE_READ)),
              IBV_WC_SUCCESS)
        << "a region that nobody writes can be read";
  }
}

TEST_F(memory_windows, each_type_has_its_own_way_of_binding) {
  const auto first = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_1));
  const auto second = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  ibv_mw_bind wanted{.wr_id = 5, .send_flags = IBV_SEND_SIGNALED, .bind_info = part(0, 64)};

  EXPECT_EQ(ibv_bind_mw(pair_.b.qp.get(), second.get(), &wanted), EINVAL);
  const buffer elsewhere(pair_.a.domain(), 64);
  ibv_mw_bind foreign = wanted;
  foreign.bind_info.mr = elsewhere.mr.get();
  EXPECT_EQ(ibv_bind_mw(pair_.b.qp.get(), first.get(), &foreign), EPERM);
  EXPECT_EQ(
      bind_window(1, first.get(), ibv_inc_rkey(first->rkey), part(0, 64)).post(pair_.b.qp.get()),
      EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_alloc_mw(pair_.b.domain(), static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(memory_windows, a_key_of_another_window_cannot_be_chosen) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  EXPECT_EQ(bind(mw.get(), there_.rkey() + 1, part(0, 64)), IBV_WC_MW_BIND_ERR);
}

TEST_F(memory_windows, a_zero_based_window_counts_from_its_start) {
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  const auto key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind(mw.get(), key, part(512, 64, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED)),
            IBV_WC_SUCCESS);

  EXPECT_EQ(write_to(8, 56, key), IBV_WC_SUCCESS);
  EXPECT_TRUE(same_bytes(there_.bytes(520, 56), here_.bytes(0, 56)));
  EXPECT_TRUE(all_zero(there_.bytes(0, 520)));
  EXPECT_EQ(write_to(8, 57, key), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(memory_windows, a_region_with_windows_stays) {
  auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  const auto key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind(mw.get(), key, part(0, 64)), IBV_WC_SUCCESS);

  EXPECT_EQ(ibv_dereg_mr(there_.mr.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pair_.b.domain()), EBUSY);
  EXPECT_EQ(write_to(there_.address(), 8, key), IBV_WC_SUCCESS);

  mw = nullptr;  // what is gone binds nothing
  EXPECT_EQ(write_to(there_.address(), 8, key), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(there_.mr.release()), 0);
  there_.mr = own(ibv_reg_mr(pair_.b.domain(), there_.bytes().data(), there_.size(), all_access));
}

TEST_F(memory_windows, a_window_of_type_2_ends_with_its_queue_pair) {
  connected_pair other(pair_.context, {.same_domain = pair_.b.domain()});
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  ASSERT_EQ(bind_window(1, mw.get(), ibv_inc_rkey(mw->rkey), part(0, 64)).post(other.a.qp.get()),
            0);
  wait_for_success(other.a.send_cq.get());
  EXPECT_EQ(ibv_dereg_mr(there_.mr.get()), EBUSY);

  other.a.qp = nullptr;

  EXPECT_EQ(ibv_dereg_mr(there_.mr.release()), 0);
  there_.mr = own(ibv_reg_mr(pair_.b.domain(), there_.bytes().data(), there_.size(), all_access));
}

TEST_F(memory_windows, nothing_is_written_after_an_invalidation) {
  for (int round = 0; round < 20; ++round) {
    const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
    const auto key = ibv_inc_rkey(mw->rkey);
    ASSERT_EQ(bind(mw.get(), key, part(0, 4096)), IBV_WC_SUCCESS);
    std::atomic<int> written = 0;
    std::atomic<bool> invalidated = false;
    {
      const std::jthread writer([&] {
        for (;;) {
          const bool late = invalidated;
          const auto status = write_to(there_.address(), 4096, key);
          if (status == IBV_WC_SUCCESS) {
            EXPECT_FALSE(late);
            ++written;
            continue;
          }
          EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
          return;
        }
      });
      while (written < 3) std::this_thread::yield();
      ASSERT_EQ(invalidate(key), IBV_WC_SUCCESS);
      std::ranges::fill(there_.bytes(), std::byte{0xaa});
      invalidated = true;
    }
    EXPECT_TRUE(
        std::ranges::all_of(there_.bytes(), [](std::byte b) { return b == std::byte{0xaa}; }));
    connect_again();
  }
}

}  // namespace
}  // namespace softverbs::device_tests
