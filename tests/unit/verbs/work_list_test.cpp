#include <rdmaxx/verbs/work_list.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/verbs/fake_verbs.hpp"

using namespace rdmaxx;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

static_assert(sizeof(send_slot) == sizeof(ibv_send_wr) + sizeof(ibv_sge) &&
              sizeof(recv_slot) == sizeof(ibv_recv_wr) + sizeof(ibv_sge));
static_assert(std::is_trivial_v<send_slot> && std::is_trivial_v<recv_slot>);

namespace {

template <class Native>
std::vector<std::uint64_t> ids(const std::vector<posted<Native>>& requests) {
  std::vector<std::uint64_t> found;
  for (const auto& one : requests) found.push_back(one.request.wr_id);
  return found;
}

class work_list_test : public testing::Test {
 protected:
  fake_setup setup;
  queue_pair qp = setup.make_qp({.max_inline = 16});
  fake_qp& device = fake_device::of(qp);
  std::array<std::byte, 16> bytes{};
  std::array<gather_element, 1> list_of_one{gather_element::unregistered(bytes)};
  memory_region region = setup.pd.register_local(bytes).value();
  std::array<send_slot, 4> slots{};
  std::array<recv_slot, 4> recv_slots{};
};

}  // namespace

TEST_F(work_list_test, counts_what_is_pushed) {
  send_list list(slots);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.capacity(), 4U);

  list.push(send_wr{});
  list.push(read_wr{});

  EXPECT_EQ(list.size(), 2U);
  EXPECT_FALSE(list.empty());
  EXPECT_FALSE(list.full());
  EXPECT_EQ(describe(list), "2 of 4 requests");
}

TEST_F(work_list_test, a_full_list_refuses_more_and_stays_as_it_is) {
  send_list list(slots);
  for (unsigned i = 0; i < 4; ++i) list.push(send_wr{.id = wr_id(i)});
  EXPECT_TRUE(list.full());

  try {
    list.push(send_wr{.id = wr_id(9)});
    FAIL() << "nothing was thrown";
  } catch (const exception& thrown) {
    EXPECT_EQ(thrown.error().category(), error_category::misuse);
    EXPECT_THAT(thrown.error().problem(), HasSubstr("4 slots"));
    EXPECT_THAT(thrown.error().hint(), HasSubstr("clear()"));
  }

  EXPECT_TRUE(qp.post(list));
  EXPECT_THAT(ids(device.sends), ElementsAre(0, 1, 2, 3));
}

TEST_F(work_list_test, a_list_without_slots_is_empty_and_full) {
  send_list list(std::span<send_slot>{});

  EXPECT_TRUE(list.empty());
  EXPECT_TRUE(list.full());
  EXPECT_THROW(list.push(send_wr{}), exception);
  EXPECT_TRUE(qp.post(list));
}

TEST_F(work_list_test, posting_an_empty_list_does_not_call_the_driver) {
  device.accepts = 0;

  EXPECT_TRUE(qp.post(send_list(slots)));
  EXPECT_TRUE(qp.post(recv_list(recv_slots)));
}

TEST_F(work_list_test, requests_of_all_kinds_are_posted_in_order) {
  const remote_address there{.address = 0x1000, .key = rkey(9)};
  send_list list(slots);
  list.push(write_wr{.id = wr_id(1), .from = list_of_one, .to = there, .flags = {}});
  list.push(faa_wr{.id = wr_id(2), .at = there, .add = 3});
  list.push(send_wr{.id = wr_id(3), .imm = 7});

  ASSERT_TRUE(qp.post(list));

  ASSERT_THAT(ids(device.sends), ElementsAre(1, 2, 3));
  EXPECT_EQ(device.sends[0].request.opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(device.sends[0].elements.at(0).addr, reinterpret_cast<std::uintptr_t>(bytes.data()));
  EXPECT_EQ(device.sends[1].request.opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
  EXPECT_EQ(device.sends[2].request.opcode, IBV_WR_SEND_WITH_IMM);
}

TEST_F(work_list_test, a_request_with_one_element_needs_nothing_that_lives_until_it_is_posted) {
  send_list list(slots);
  recv_list receives(recv_slots);
  for (unsigned i = 0; i < 4; ++i) {
    list.push(send_wr{.from = gather_element::unregistered(std::span(bytes).subspan(i, i + 1))});
    receives.push(recv_wr{.into = region.scatter(std::span(bytes).subspan(i, i + 1))});
  }

  ASSERT_TRUE(qp.post(list));
  ASSERT_TRUE(qp.post(receives));

  for (unsigned i = 0; i < 4; ++i) {
    for (const ibv_sge& element :
         {device.sends[i].elements.at(0), device.recvs[i].elements.at(0)}) {
      EXPECT_EQ(element.addr, reinterpret_cast<std::uintptr_t>(&bytes[i]));
      EXPECT_EQ(element.length, i + 1);
    }
  }
}

TEST_F(work_list_test, a_list_may_be_posted_again_unchanged) {
  send_list list(slots);
  list.push(send_wr{.id = wr_id(1)});
  list.push(send_wr{.id = wr_id(2)});

  ASSERT_TRUE(qp.post(list));
  ASSERT_TRUE(qp.post(list));

  EXPECT_THAT(ids(device.sends), ElementsAre(1, 2, 1, 2));
}

TEST_F(work_list_test, a_list_that_was_posted_may_grow) {
  send_list list(slots);
  list.push(send_wr{.id = wr_id(1)});
  ASSERT_TRUE(qp.post(list));
  list.push(send_wr{.id = wr_id(2)});

  ASSERT_TRUE(qp.post(list));

  EXPECT_THAT(ids(device.sends), ElementsAre(1, 1, 2))
      << "what was pushed later must not be lost silently";
}

TEST_F(work_list_test, a_list_that_was_refused_may_grow) {
  send_list list(slots);
  list.push(send_wr{.id = wr_id(1)});
  device.accepts = 0;
  ASSERT_FALSE(qp.post(list));
  device.accepts = 8;
  list.push(send_wr{.id = wr_id(2)});

  ASSERT_TRUE(qp.post(list));

  EXPECT_THAT(ids(device.sends), ElementsAre(1, 2));
}

TEST_F(work_list_test, a_cleared_list_starts_anew) {
  send_list list(slots);
  for (unsigned i = 0; i < 4; ++i) list.push(send_wr{.id = wr_id(i)});
  ASSERT_TRUE(qp.post(list));
  device.sends.clear();

  list.clear();
  EXPECT_TRUE(list.empty());
  list.push(send_wr{.id = wr_id(10)});
  list.push(send_wr{.id = wr_id(11)});
  ASSERT_TRUE(qp.post(list));

  EXPECT_THAT(ids(device.sends), ElementsAre(10, 11));
}

TEST_F(work_list_test, receives_form_lists_too) {
  recv_list list(recv_slots);
  list.push(recv_wr{.id = wr_id(5)});
  list.push_unchecked(recv_wr{.id = wr_id(6)});

  ASSERT_TRUE(qp.post(list));

  EXPECT_THAT(ids(device.recvs), ElementsAre(5, 6));
  EXPECT_THAT(device.sends, IsEmpty());
}

TEST_F(work_list_test, inline_if_fits_is_measured_against_the_limit_given_to_the_list) {
  const send_wr request{.from = list_of_one, .flags = send_flag::inline_if_fits};
  send_list with_limit(slots, qp.max_inline());
  with_limit.push(request);
  ASSERT_TRUE(qp.post(with_limit));
  send_list without(slots);
  without.push(request);
  ASSERT_TRUE(qp.post(without));

  EXPECT_EQ(device.sends[0].request.send_flags, unsigned{IBV_SEND_INLINE});
  EXPECT_EQ(device.sends[1].request.send_flags, 0U);
}

TEST_F(work_list_test, a_partial_failure_tells_the_first_that_was_not_posted) {
  device.attributes.qp_state = IBV_QPS_RTS;
  for (std::size_t accepted = 0; accepted < 4; ++accepted) {
    send_list list(slots);
    for (unsigned i = 0; i < 4; ++i) list.push(send_wr{.id = wr_id(i)});
    device.accepts = accepted;
    device.sends.clear();

    const auto failed = qp.post(list);

    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().first_not_posted(), accepted);
    EXPECT_EQ(device.sends.size(), accepted);
    EXPECT_EQ(failed.error().category(), error_category::retryable);
  }
}

TEST_F(work_list_test, receives_tell_the_first_that_was_not_posted_too) {
  device.attributes.qp_state = IBV_QPS_RTS;
  device.accepts = 2;
  recv_list list(recv_slots);
  for (unsigned i = 0; i < 3; ++i) list.push(recv_wr{.id = wr_id(i)});

  EXPECT_EQ(qp.post(list).error().first_not_posted(), 2U);
}

TEST_F(work_list_test, a_driver_that_does_not_say_which_was_refused_means_the_first) {
  device.accepts = 0;
  device.tells_refused = false;
  send_list list(slots);
  list.push(send_wr{});

  EXPECT_EQ(qp.post(list).error().first_not_posted(), 0U);
}
