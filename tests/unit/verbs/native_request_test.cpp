#include <rdmaxx/verbs/native_request.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "unit/verbs/fake_verbs.hpp"

using namespace rdmaxx;

namespace {

struct send_and_invalidate_wr {
  wr_id id{};
  gather_list from{};
  rkey taken_away{};
  send_flags flags = send_flag::signaled;
};

}  // namespace

template <>
struct rdmaxx::operation<send_and_invalidate_wr> {
  static constexpr std::string_view name = "send_and_invalidate";
  static constexpr ibv_wr_opcode opcode = IBV_WR_SEND_WITH_INV;
  static constexpr service_types services = {.rc = true};
  static constexpr access_flags remote_access{};
  static const gather_list& elements(const send_and_invalidate_wr& request) { return request.from; }
  static rkey invalidated(const send_and_invalidate_wr& request) { return request.taken_away; }
};

namespace {

/// A C request full of rubbish, as it comes from the stack: what is not filled is seen.
template <class Native>
Native rubbish() {
  Native request;
  std::memset(&request, 0xee, sizeof request);
  return request;
}

template <class Request>
ibv_send_wr filled(const Request& request, std::uint32_t max_inline = 0) {
  auto native = rubbish<ibv_send_wr>();
  ibv_sge place;
  detail::fill(native, place, request, max_inline);
  return native;
}

class native_request_test : public testing::Test {
 protected:
  fake_setup setup;
  std::array<std::byte, 64> buffer{};
  memory_region region = setup.pd.register_local(buffer).value();
  std::array<gather_element, 2> gathers{region.gather(std::span(buffer).first(16)),
                                        region.gather(std::span(buffer).last(8))};
  std::array<scatter_element, 2> scatters{region.scatter(std::span(buffer).first(4)),
                                          region.scatter(std::span(buffer).last(4))};
  remote_address there{.address = 0x1122334455, .key = rkey(0x99)};
};

}  // namespace

TEST_F(native_request_test, a_send_is_id_list_and_flags) {
  const auto native = filled(send_wr{.id = wr_id(7), .from = gathers});

  EXPECT_EQ(native.wr_id, 7U);
  EXPECT_EQ(native.opcode, IBV_WR_SEND);
  EXPECT_EQ(native.num_sge, 2);
  EXPECT_EQ(static_cast<void*>(native.sg_list), gathers.data()) << "the list is not copied";
  EXPECT_EQ(native.send_flags, unsigned{IBV_SEND_SIGNALED}) << "signaled unless asked otherwise";
}

TEST_F(native_request_test, immediate_data_changes_the_opcode_and_travels_in_network_order) {
  const auto send = filled(send_wr{.imm = 0x01020304});
  EXPECT_EQ(send.opcode, IBV_WR_SEND_WITH_IMM);
  EXPECT_EQ(send.imm_data, htonl(0x01020304));

  const auto write = filled(write_wr{.to = there, .imm = 0});
  EXPECT_EQ(write.opcode, IBV_WR_RDMA_WRITE_WITH_IMM) << "zero is immediate data, too";
  EXPECT_EQ(write.imm_data, 0U);
}

TEST_F(native_request_test, a_write_names_the_remote_place) {
  const auto native = filled(write_wr{.id = wr_id(8), .from = gathers, .to = there, .flags = {}});

  EXPECT_EQ(native.opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(native.wr.rdma.remote_addr, 0x1122334455U);
  EXPECT_EQ(native.wr.rdma.rkey, 0x99U);
  EXPECT_EQ(static_cast<void*>(native.sg_list), gathers.data());
  EXPECT_EQ(native.send_flags, 0U) << "unsignaled";
}

TEST_F(native_request_test, a_read_scatters_what_it_finds) {
  const auto native = filled(read_wr{.id = wr_id(9),
                                     .from = there,
                                     .into = scatters,
                                     .flags = send_flag::fence | send_flag::signaled});

  EXPECT_EQ(native.wr_id, 9U);
  EXPECT_EQ(native.opcode, IBV_WR_RDMA_READ);
  EXPECT_EQ(native.wr.rdma.remote_addr, 0x1122334455U);
  EXPECT_EQ(native.wr.rdma.rkey, 0x99U);
  EXPECT_EQ(static_cast<void*>(native.sg_list), scatters.data());
  EXPECT_EQ(native.num_sge, 2);
  EXPECT_EQ(native.send_flags, unsigned{IBV_SEND_FENCE | IBV_SEND_SIGNALED});
}

TEST_F(native_request_test, a_compare_and_swap_has_both_values_in_their_places) {
  const auto native =
      filled(cas_wr{.id = wr_id(1), .at = there, .expected = 5, .desired = 6, .into = scatters});

  EXPECT_EQ(native.opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
  EXPECT_EQ(native.wr.atomic.remote_addr, 0x1122334455U);
  EXPECT_EQ(native.wr.atomic.rkey, 0x99U);
  EXPECT_EQ(native.wr.atomic.compare_add, 5U);
  EXPECT_EQ(native.wr.atomic.swap, 6U);
  EXPECT_EQ(static_cast<void*>(native.sg_list), scatters.data());
}

TEST_F(native_request_test, a_fetch_and_add_has_its_summand) {
  const auto native = filled(faa_wr{.id = wr_id(1), .at = there, .add = 5, .into = scatters});

  EXPECT_EQ(native.opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
  EXPECT_EQ(native.wr.atomic.remote_addr, 0x1122334455U);
  EXPECT_EQ(native.wr.atomic.rkey, 0x99U);
  EXPECT_EQ(native.wr.atomic.compare_add, 5U);
}

TEST_F(native_request_test, a_datagram_names_its_receiver) {
  const auto ah = setup.pd.create_ah({}).value();

  const auto native = filled(ud_send_wr{.id = wr_id(2),
                                        .from = gathers,
                                        .to = ah,
                                        .remote_queue_pair = qpn(0x12),
                                        .remote_queue_key = qkey(0x80000000),
                                        .imm = 3});

  EXPECT_EQ(native.opcode, IBV_WR_SEND_WITH_IMM);
  EXPECT_EQ(native.wr.ud.ah, ah.native());
  EXPECT_EQ(native.wr.ud.remote_qpn, 0x12U);
  EXPECT_EQ(native.wr.ud.remote_qkey, 0x80000000U);
  EXPECT_EQ(native.imm_data, htonl(3));
}

TEST_F(native_request_test, a_type_of_somebody_else_needs_only_its_description) {
  static_assert(send_operation<send_and_invalidate_wr>);
  static_assert(!send_operation<recv_wr> && !send_operation<remote_address>);

  const auto native =
      filled(send_and_invalidate_wr{.id = wr_id(3), .from = gathers, .taken_away = rkey(0x77)});

  EXPECT_EQ(native.wr_id, 3U);
  EXPECT_EQ(native.opcode, IBV_WR_SEND_WITH_INV);
  EXPECT_EQ(native.invalidate_rkey, 0x77U);
  EXPECT_EQ(native.num_sge, 2);
}

TEST_F(native_request_test, a_receive_is_id_and_list) {
  auto native = rubbish<ibv_recv_wr>();

  ibv_sge place;
  detail::fill(native, place, recv_wr{.id = wr_id(4), .into = scatters});

  EXPECT_EQ(native.wr_id, 4U);
  EXPECT_EQ(static_cast<void*>(native.sg_list), scatters.data());
  EXPECT_EQ(native.num_sge, 2);
}

TEST_F(native_request_test, every_flag_is_the_c_flag) {
  const auto native =
      filled(send_wr{.flags = {send_flag::fence, send_flag::signaled, send_flag::solicited,
                               send_flag::inline_data, send_flag::ip_checksum}});

  EXPECT_EQ(native.send_flags, unsigned{IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |
                                        IBV_SEND_INLINE | IBV_SEND_IP_CSUM});
}

TEST_F(native_request_test, inline_if_fits_counts_all_elements_against_the_limit) {
  const send_flags wanted = send_flag::inline_if_fits | send_flag::solicited;
  const auto with_limit = [&](std::uint32_t limit) {
    return filled(send_wr{.from = gathers, .flags = wanted}, limit).send_flags;
  };

  EXPECT_EQ(with_limit(23), unsigned{IBV_SEND_SOLICITED}) << "24 bytes do not fit 23";
  EXPECT_EQ(with_limit(24), unsigned{IBV_SEND_SOLICITED | IBV_SEND_INLINE});
  EXPECT_EQ(with_limit(25), unsigned{IBV_SEND_SOLICITED | IBV_SEND_INLINE});
  EXPECT_EQ(filled(write_wr{.from = gathers, .to = there, .flags = wanted}, 24).send_flags,
            unsigned{IBV_SEND_SOLICITED | IBV_SEND_INLINE});
}

TEST_F(native_request_test, no_bytes_always_fit_inline) {
  EXPECT_EQ(filled(send_wr{.flags = send_flag::inline_if_fits}, 0).send_flags,
            unsigned{IBV_SEND_INLINE});
}

TEST_F(native_request_test,
       what_comes_back_cannot_be_inline_and_the_driver_never_sees_our_own_flag) {
  const send_flags wanted = send_flag::inline_if_fits | send_flag::signaled;

  EXPECT_EQ(filled(read_wr{.from = there, .into = scatters, .flags = wanted}, 64).send_flags,
            unsigned{IBV_SEND_SIGNALED});
  EXPECT_EQ(filled(cas_wr{.at = there, .into = scatters, .flags = wanted}, 64).send_flags,
            unsigned{IBV_SEND_SIGNALED});
  EXPECT_EQ(filled(faa_wr{.at = there, .into = scatters, .flags = wanted}, 64).send_flags,
            unsigned{IBV_SEND_SIGNALED});
  EXPECT_EQ(filled(send_wr{.from = gathers, .flags = wanted}, 0).send_flags,
            unsigned{IBV_SEND_SIGNALED});
}

TEST_F(native_request_test, each_is_described_in_one_line) {
  const auto ah = setup.pd.create_ah({}).value();

  EXPECT_EQ(describe(send_wr{.id = wr_id(1), .from = gathers, .imm = 0x2a}),
            "send 1 of 24 bytes imm 0x2a [signaled]");
  EXPECT_EQ(describe(ud_send_wr{.id = wr_id(2), .to = ah, .remote_queue_pair = qpn(0x12)}),
            "ud_send 2 of 0 bytes to queue pair 0x12 [signaled]");
  EXPECT_EQ(describe(write_wr{.id = wr_id(3), .from = gathers, .to = there, .flags = {}}),
            "write 3 of 24 bytes to 0x1122334455 with rkey 0x99 [none]");
  EXPECT_EQ(describe(read_wr{.id = wr_id(4), .from = there, .into = scatters}),
            "read 4 of 8 bytes from 0x1122334455 with rkey 0x99 [signaled]");
  EXPECT_EQ(describe(cas_wr{.id = wr_id(5), .at = there}),
            "compare_and_swap 5 at 0x1122334455 with rkey 0x99 [signaled]");
  EXPECT_EQ(describe(faa_wr{.id = wr_id(6), .at = there, .add = 9}),
            "fetch_and_add 6 of 9 at 0x1122334455 with rkey 0x99 [signaled]");
  EXPECT_EQ(describe(recv_wr{.id = wr_id(7), .into = scatters}), "recv 7 of 8 bytes");
}
