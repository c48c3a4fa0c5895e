// Memory regions: who may touch which bytes, and ibv_rereg_mr.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

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

/// The status of one request on a new pair of queue pairs: an error would spoil any other one.
class memory_regions : public testing::Test {
 protected:
  [[nodiscard]] static ibv_wc_status status_of(const connected_pair& pair, send_request request) {
    EXPECT_EQ(request.post(pair.a.qp.get()), 0);
    return wait_for_one(pair.a.send_cq.get()).status;
  }

  /// b's memory is in the domain of `pd_`.
  [[nodiscard]] connected_pair connected(unsigned access = remote_access) const {
    return connected_pair(context_.get(), {.same_domain = pd_.get(), .access = access});
  }

  [[nodiscard]] ibv_wc_status write_status(std::uint64_t address, std::size_t bytes,
                                           std::uint32_t rkey) const {
    return status_of(connected(), write(1, {here_.sge(0, bytes)}, address, rkey));
  }
  [[nodiscard]] ibv_wc_status read_status(std::uint64_t address, std::size_t bytes,
                                          std::uint32_t rkey) const {
    return status_of(connected(), read(1, {here_.sge(0, bytes)}, address, rkey));
  }

  [[nodiscard]] int refusal(void* address, std::size_t bytes, int access) const {
    errno = 0;
    const owned<ibv_mr> made(ibv_reg_mr(pd_.get(), address, bytes, access));
    return made == nullptr ? errno : 0;
  }

  owned<ibv_context> context_ = open_device();
  owned<ibv_pd> pd_ = own(ibv_alloc_pd(context_.get()));
  buffer here_{pd_.get(), 4096};
};

TEST_F(memory_regions, every_operation_needs_the_right_of_the_region_and_of_the_queue_pair) {
  struct operation {
    const char* name;
    unsigned needs;
    ibv_wr_opcode opcode;
  };
  constexpr operation operations[]{
      {"write", IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE},
      {"write with immediate", IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM},
      {"read", IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ},
      {"fetch and add", IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD},
      {"compare and swap", IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_CMP_AND_SWP},
  };
  constexpr unsigned rights[]{IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
                              IBV_ACCESS_REMOTE_ATOMIC};
  const auto combination = [&](unsigned bits) {
    unsigned access = 0;
    for (unsigned i = 0; i < 3; ++i) {
      if ((bits >> i & 1U) != 0) access |= rights[i];
    }
    return access;
  };
  fill_pattern(here_.bytes(), 1);
  for (unsigned of_region = 0; of_region < 8; ++of_region) {
    buffer there(pd_.get(), 8, static_cast<int>(combination(of_region) | IBV_ACCESS_LOCAL_WRITE));
    for (unsigned of_queue_pair = 0; of_queue_pair < 8; ++of_queue_pair) {
      for (const auto& each : operations) {
        SCOPED_TRACE(std::string(each.name) + ", region " + std::to_string(of_region) +
                     ", queue pair " + std::to_string(of_queue_pair));
        const auto pair = connected(combination(of_queue_pair));
        const bool allowed =
            (combination(of_region) & combination(of_queue_pair) & each.needs) != 0;
        fill_pattern(there.bytes(), 2);
        const std::vector before(there.bytes().begin(), there.bytes().end());
        auto wanted = request(each.opcode, 1, {here_.sge(0, 8)});
        if (each.needs == IBV_ACCESS_REMOTE_ATOMIC) {
          wanted.wr.wr.atomic = {
              .remote_addr = there.address(), .compare_add = 1, .swap = 2, .rkey = there.rkey()};
        } else {
          wanted.wr.wr.rdma = {.remote_addr = there.address(), .rkey = there.rkey()};
        }
        ASSERT_EQ(post_receive(pair.b.qp.get(), 1, {}), 0);

        EXPECT_EQ(status_of(pair, wanted), allowed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);

        if (!allowed) {
          EXPECT_TRUE(same_bytes(there.bytes(), before));
        }
        discard_events(context_.get());
      }
    }
  }
}

TEST_F(memory_regions, one_byte_outside_is_out_of_reach) {
  buffer there(pd_.get(), 100);
  EXPECT_EQ(write_status(there.address(), 100, there.rkey()), IBV_WC_SUCCESS);
  EXPECT_EQ(write_status(there.address(99), 1, there.rkey()), IBV_WC_SUCCESS);
  EXPECT_EQ(write_status(there.address() - 1, 1, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write_status(there.address() - 1, 101, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write_status(there.address(), 101, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write_status(there.address(100), 1, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(read_status(there.address(1), 100, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(read_status(there.address() - 1, 2, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write_status(~std::uint64_t{0} - 1, 100, there.rkey()), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(memory_regions, a_message_that_goes_too_far_writes_nothing_at_all) {
  buffer there(pd_.get(), 4000);
  fill_pattern(here_.bytes(), 1);

  EXPECT_EQ(write_status(there.address(), 4001, there.rkey()), IBV_WC_REM_ACCESS_ERR);

  EXPECT_TRUE(all_zero(there.bytes())) << "not even its first packet";
}

TEST_F(memory_regions, a_key_that_never_was_or_is_no_more_opens_nothing) {
  auto there = std::make_unique<buffer>(pd_.get(), 100);
  const auto address = there->address();
  const auto key = there->rkey();
  EXPECT_EQ(write_status(address, 8, 0), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write_status(address, 8, ~std::uint32_t{0}), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write_status(address, 8, key ^ 1U), IBV_WC_REM_ACCESS_ERR);

  there->mr = nullptr;
  EXPECT_EQ(write_status(address, 8, key), IBV_WC_REM_ACCESS_ERR);
  there->mr = own(ibv_reg_mr(pd_.get(), there->bytes().data(), 100, all_access));
  EXPECT_NE(there->rkey(), key);
  EXPECT_EQ(write_status(address, 8, key), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write_status(address, 8, there->rkey()), IBV_WC_SUCCESS);
}

TEST_F(memory_regions, a_domain_sees_its_own_regions_only) {
  const auto other = own(ibv_alloc_pd(context_.get()));
  const buffer there(other.get(), 100);

  EXPECT_EQ(write_status(there.address(), 8, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(read_status(there.address(), 8, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(status_of(connected(), write(1, {there.sge()}, here_.address(), here_.rkey())),
            IBV_WC_LOC_PROT_ERR);
}

TEST_F(memory_regions, local_elements_are_checked) {
  const buffer read_only(pd_.get(), 64, 0);
  const auto there = here_.address(2048);
  const auto rkey = here_.rkey();
  EXPECT_EQ(status_of(connected(), write(1, {read_only.sge()}, there, rkey)), IBV_WC_SUCCESS);
  EXPECT_EQ(status_of(connected(), read(1, {read_only.sge()}, there, rkey)), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(status_of(connected(), fetch_add(1, read_only.sge(0, 8), there, rkey, 1)),
            IBV_WC_LOC_PROT_ERR);
  auto beyond = here_.sge(4000, 97);
  EXPECT_EQ(status_of(connected(), write(1, {beyond}, here_.address(), rkey)), IBV_WC_LOC_PROT_ERR);
  auto wrong = here_.sge(0, 8);
  wrong.lkey ^= 1U;
  EXPECT_EQ(status_of(connected(), write(1, {here_.sge(0, 8), wrong}, there, rkey)),
            IBV_WC_LOC_PROT_ERR)
      << "the second element, too";
}

TEST_F(memory_regions, a_receive_into_memory_that_cannot_be_written_fails_on_both_sides) {
  const buffer read_only(pd_.get(), 64, 0);
  const auto pair = connected();
  ASSERT_EQ(post_receive(pair.b.qp.get(), 2, {read_only.sge()}), 0);

  EXPECT_EQ(status_of(pair, send(1, {here_.sge(0, 8)})), IBV_WC_REM_OP_ERR);
  const auto received = wait_for_one(pair.b.recv_cq.get());
  EXPECT_EQ(received.wr_id, 2U);
  EXPECT_EQ(received.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(state_of(pair.b.qp.get()), IBV_QPS_ERR);
}

TEST_F(memory_regions, operations_without_bytes_look_at_no_key) {
  EXPECT_EQ(status_of(connected(), write(1, {}, 0, 0)), IBV_WC_SUCCESS);
  EXPECT_EQ(status_of(connected(), write(1, {here_.sge(0, 0)}, 12345, 678)), IBV_WC_SUCCESS);
  EXPECT_EQ(status_of(connected(), read(1, {}, 0, 0)), IBV_WC_SUCCESS);
  const auto pair = connected();
  ASSERT_EQ(post_receive(pair.b.qp.get(), 2, {}), 0);
  ASSERT_EQ(post_receive(pair.b.qp.get(), 3, {here_.sge()}), 0);
  EXPECT_EQ(status_of(pair, send(1, {})), IBV_WC_SUCCESS);
  EXPECT_EQ(status_of(pair, write(1, {}, 0, 0).imm(7)), IBV_WC_SUCCESS);
  const auto received = wait_for_successes(pair.b.recv_cq.get(), 2);
  EXPECT_EQ(received[0].byte_len, 0U);
  EXPECT_EQ(received[1].byte_len, 0U);
  EXPECT_EQ(received[1].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
}

TEST_F(memory_regions, a_zero_based_region_counts_from_its_start) {
  buffer there(pd_.get(), 64, all_access | IBV_ACCESS_ZERO_BASED);
  fill_pattern(here_.bytes(), 1);

  EXPECT_EQ(write_status(0, 64, there.rkey()), IBV_WC_SUCCESS);
  EXPECT_TRUE(same_bytes(there.bytes(), here_.bytes(0, 64)));
  EXPECT_EQ(write_status(1, 64, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write_status(there.address(), 8, there.rkey()), IBV_WC_REM_ACCESS_ERR);

  const ibv_sge local{.addr = 8, .length = 8, .lkey = there.mr->lkey};
  EXPECT_EQ(status_of(connected(), write(1, {local}, here_.address(100), here_.rkey())),
            IBV_WC_SUCCESS);
  EXPECT_TRUE(same_bytes(here_.bytes(100, 8), there.bytes(8, 8)));
}

TEST_F(memory_regions, a_region_begins_where_the_user_says) {
  std::vector<std::byte> memory(64);
  constexpr std::uint64_t start = 0x1'0000'0000;
  const auto mr = own(ibv_reg_mr_iova(pd_.get(), memory.data(), memory.size(), start, all_access));
  fill_pattern(here_.bytes(), 1);

  EXPECT_EQ(write_status(start + 32, 32, mr->rkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(same_bytes(std::span(memory).subspan(32), here_.bytes(0, 32)));
  EXPECT_EQ(write_status(start + 32, 33, mr->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(mr->addr, memory.data());
}

TEST_F(memory_regions, what_cannot_be_registered_is_refused) {
  std::vector<std::byte> memory(64);
  EXPECT_EQ(refusal(memory.data(), 0, 0), EINVAL);
  EXPECT_EQ(refusal(memory.data(), 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(refusal(memory.data(), 64, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_EQ(refusal(memory.data(), 64, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
  EXPECT_EQ(refusal(memory.data(), 64, IBV_ACCESS_RELAXED_ORDERING), 0) << "an offer, no demand";
  EXPECT_EQ(refusal(memory.data(), ~std::size_t{0}, 0), EINVAL);

  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* const gap = static_cast<std::byte*>(
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(gap), MAP_FAILED);
  ASSERT_EQ(::munmap(gap + page, page), 0);
  EXPECT_EQ(refusal(gap, 2 * page, 0), EFAULT);
  ASSERT_EQ(::mprotect(gap, page, PROT_READ), 0);
  EXPECT_EQ(refusal(gap, page, 0), 0);
  EXPECT_EQ(refusal(gap, page, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  ::munmap(gap, page);
}

TEST_F(memory_regions, a_region_changes_its_place) {
  buffer there(pd_.get(), 100);
  const auto keys = *there.mr;
  std::vector<std::byte> elsewhere(200);
  fill_pattern(here_.bytes(), 1);

  ASSERT_EQ(ibv_rereg_mr(there.mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, elsewhere.data(),
                         elsewhere.size(), 0),
            0);

  EXPECT_EQ(there.mr->addr, elsewhere.data());
  EXPECT_EQ(there.mr->length, 200U);
  EXPECT_EQ(there.mr->lkey, keys.lkey) << "nobody has to be told again";
  EXPECT_EQ(there.mr->rkey, keys.rkey);
  const auto address = reinterpret_cast<std::uintptr_t>(elsewhere.data());
  EXPECT_EQ(write_status(address, 200, there.rkey()), IBV_WC_SUCCESS);
  EXPECT_TRUE(same_bytes(elsewhere, here_.bytes(0, 200)));
  EXPECT_EQ(write_status(there.address(), 8, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  there.mr = nullptr;  // before the memory that it names
}

TEST_F(memory_regions, a_region_changes_its_domain) {
  auto other = own(ibv_alloc_pd(context_.get()));
  buffer there(other.get(), 100);
  ASSERT_EQ(write_status(there.address(), 8, there.rkey()), IBV_WC_REM_ACCESS_ERR);

  const auto keys = *there.mr;
  ASSERT_EQ(ibv_rereg_mr(there.mr.get(), IBV_REREG_MR_CHANGE_PD, pd_.get(), nullptr, 0, 0), 0);

  EXPECT_EQ(there.mr->lkey, keys.lkey);
  EXPECT_EQ(there.mr->rkey, keys.rkey);
  EXPECT_EQ(there.mr->pd, pd_.get());
  EXPECT_EQ(write_status(there.address(), 8, there.rkey()), IBV_WC_SUCCESS);
  other = nullptr;  // nothing uses it any more
}

TEST_F(memory_regions, a_region_changes_its_rights) {
  buffer there(pd_.get(), 100, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_EQ(write_status(there.address(), 8, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  const auto keys = *there.mr;

  ASSERT_EQ(ibv_rereg_mr(there.mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
            0);
  EXPECT_EQ(there.mr->lkey, keys.lkey);
  EXPECT_EQ(there.mr->rkey, keys.rkey);
  EXPECT_EQ(write_status(there.address(), 8, there.rkey()), IBV_WC_SUCCESS);
  EXPECT_EQ(read_status(there.address(), 8, there.rkey()), IBV_WC_REM_ACCESS_ERR);

  ASSERT_EQ(ibv_rereg_mr(there.mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_REMOTE_READ),
            0);
  EXPECT_EQ(write_status(there.address(), 8, there.rkey()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(read_status(there.address(), 8, there.rkey()), IBV_WC_SUCCESS);
}

TEST_F(memory_regions, a_region_changes_in_every_way_at_once) {
  auto other = own(ibv_alloc_pd(context_.get()));
  buffer there(other.get(), 100, IBV_ACCESS_LOCAL_WRITE);
  std::vector<std::byte> elsewhere(64);

  ASSERT_EQ(ibv_rereg_mr(there.mr.get(),
                         IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
                             IBV_REREG_MR_CHANGE_ACCESS,
                         pd_.get(), elsewhere.data(), elsewhere.size(), all_access),
            0);

  EXPECT_EQ(write_status(reinterpret_cast<std::uintptr_t>(elsewhere.data()), 64, there.rkey()),
            IBV_WC_SUCCESS);
  there.mr = nullptr;
}

TEST_F(memory_regions, a_change_that_cannot_be_leaves_everything_as_it_was) {
  buffer there(pd_.get(), 100);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const nothing = ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const struct {
    const char* why;
    int flags;
    void* address;
    std::size_t bytes;
    int access;
    int expected;
    int error;
  } cases[]{
      {"no change", 0, nullptr, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL},
      {"an unknown change", 1 << 20, nullptr, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL},
      {"no address", IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, 8, 0, IBV_REREG_MR_ERR_INPUT,
       EINVAL},
      {"no length", IBV_REREG_MR_CHANGE_TRANSLATION, here_.bytes().data(), 0, 0,
       IBV_REREG_MR_ERR_INPUT, EINVAL},
      {"no domain", IBV_REREG_MR_CHANGE_PD, nullptr, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL},
      {"rights without the wish to change them", IBV_REREG_MR_CHANGE_TRANSLATION,
       here_.bytes().data(), 8, IBV_ACCESS_LOCAL_WRITE, IBV_REREG_MR_ERR_INPUT, EINVAL},
      {"rights that exclude each other", IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0,
       IBV_ACCESS_REMOTE_WRITE, IBV_REREG_MR_ERR_CMD, EINVAL},
      {"memory that is not there", IBV_REREG_MR_CHANGE_TRANSLATION, nothing, page, 0,
       IBV_REREG_MR_ERR_CMD, EFAULT},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.why);
    errno = 0;
    EXPECT_EQ(
        ibv_rereg_mr(there.mr.get(), each.flags, nullptr, each.address, each.bytes, each.access),
        each.expected);
    EXPECT_EQ(errno, each.error);
    EXPECT_EQ(write_status(there.address(), 100, there.rkey()), IBV_WC_SUCCESS);
  }
  ::munmap(nothing, page);
}

TEST_F(memory_regions, a_domain_in_use_stays) {
  const buffer there(pd_.get(), 100);
  EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
}

}  // namespace
}  // namespace softverbs::device_tests
