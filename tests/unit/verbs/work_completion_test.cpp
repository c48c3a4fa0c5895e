#include <rdmaxx/verbs/work_completion.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <type_traits>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace rdmaxx;
using testing::HasSubstr;

// The driver writes into arrays of ours as if they were its own.
static_assert(sizeof(work_completion) == sizeof(ibv_wc) &&
              alignof(work_completion) == alignof(ibv_wc));
static_assert(std::is_standard_layout_v<work_completion> && std::is_trivial_v<work_completion>);
static_assert(!std::is_convertible_v<work_completion, bool>, "a completion is not a number");
static_assert(std::is_convertible_v<wc_status, std::error_code>);

namespace {

ibv_wc received() {
  ibv_wc native{};
  native.wr_id = 0x1122334455667788;
  native.status = IBV_WC_SUCCESS;
  native.opcode = IBV_WC_RECV;
  native.vendor_err = 0x99;
  native.byte_len = 4096;
  native.qp_num = 0x11;
  native.src_qp = 0x12;
  native.pkey_index = 3;
  native.slid = 0x44;
  native.sl = 5;
  native.dlid_path_bits = 6;
  return native;
}

ibv_wc failed(wc_status status) {
  ibv_wc native{};
  native.wr_id = 7;
  native.status = static_cast<ibv_wc_status>(status);
  native.opcode = static_cast<ibv_wc_opcode>(0x7f);  // not valid on failure
  native.vendor_err = 0xf8;
  native.qp_num = 0x11;
  return native;
}

// Statuses of reliable datagrams and extended connections, which no device has any more; and tag
// matching, about which the status itself says all there is to say.
const std::set<wc_status> without_hint{wc_status::success,
                                       wc_status::local_eec_operation_error,
                                       wc_status::local_rdd_violation,
                                       wc_status::remote_invalid_rd_request,
                                       wc_status::invalid_eec_number,
                                       wc_status::invalid_eec_state,
                                       wc_status::tag_matching_error};

}  // namespace

TEST(work_completion, tells_what_the_device_reported) {
  const work_completion completion(received());

  EXPECT_TRUE(completion);
  EXPECT_TRUE(completion.is_success());
  EXPECT_EQ(completion.status(), wc_status::success);
  EXPECT_EQ(completion.id(), wr_id(0x1122334455667788));
  EXPECT_EQ(completion.opcode(), wc_opcode::recv);
  EXPECT_EQ(completion.byte_len(), 4096U);
  EXPECT_EQ(completion.queue_pair(), qpn(0x11));
  EXPECT_EQ(completion.source_queue_pair(), qpn(0x12));
  EXPECT_EQ(completion.vendor_code(), 0x99U);
  EXPECT_EQ(completion.pkey_index(), 3);
  EXPECT_EQ(completion.source_lid(), lid(0x44));
  EXPECT_EQ(completion.service_level(), 5);
  EXPECT_EQ(completion.destination_path_bits(), 6);
  EXPECT_EQ(completion.native().wr_id, 0x1122334455667788);
}

TEST(work_completion, immediate_data_is_there_only_if_it_was_sent_and_in_host_order) {
  auto native = received();
  native.imm_data = htonl(0x01020304);
  EXPECT_EQ(work_completion(native).imm_data(), std::nullopt);

  native.wc_flags = IBV_WC_WITH_IMM;

  EXPECT_EQ(work_completion(native).imm_data(), 0x01020304U);
  EXPECT_EQ(work_completion(native).invalidated_rkey(), std::nullopt);
}

TEST(work_completion, an_invalidated_key_is_there_only_if_one_was) {
  auto native = received();
  native.invalidated_rkey = 0xabcd;
  EXPECT_EQ(work_completion(native).invalidated_rkey(), std::nullopt);

  native.wc_flags = IBV_WC_WITH_INV;

  EXPECT_EQ(work_completion(native).invalidated_rkey(), rkey(0xabcd));
  EXPECT_EQ(work_completion(native).imm_data(), std::nullopt);
}

TEST(work_completion, receives_are_told_from_requests) {
  auto native = received();
  for (const auto opcode : {wc_opcode::recv, wc_opcode::recv_rdma_with_imm}) {
    native.opcode = static_cast<ibv_wc_opcode>(opcode);
    EXPECT_TRUE(work_completion(native).is_receive());
  }
  for (const auto opcode : {wc_opcode::send, wc_opcode::rdma_write, wc_opcode::rdma_read,
                            wc_opcode::compare_and_swap, wc_opcode::fetch_and_add}) {
    native.opcode = static_cast<ibv_wc_opcode>(opcode);
    EXPECT_FALSE(work_completion(native).is_receive());
  }
}

TEST(work_completion, flags_are_a_set) {
  auto native = received();
  native.wc_flags = IBV_WC_GRH | IBV_WC_WITH_IMM;

  const auto flags = work_completion(native).flags();

  EXPECT_TRUE(flags.has(wc_flag::grh | wc_flag::with_imm));
  EXPECT_EQ(describe(flags), "grh|with_imm");
}

TEST(work_completion, an_array_of_them_is_an_array_of_ibv_wc) {
  std::array<work_completion, 3> ours{};
  std::array<ibv_wc, 3> theirs{received(), failed(wc_status::flushed), received()};

  static_assert(sizeof ours == sizeof theirs);
  std::memcpy(static_cast<void*>(ours.data()), theirs.data(), sizeof theirs);

  EXPECT_TRUE(ours[0]);
  EXPECT_EQ(ours[1].status(), wc_status::flushed);
  EXPECT_EQ(ours[2].byte_len(), 4096U);
}

TEST(work_completion, the_error_knows_status_and_origin) {
  const auto failure = work_completion(failed(wc_status::remote_access_error)).error();

  EXPECT_EQ(failure.code(), make_error_code(wc_status::remote_access_error));
  EXPECT_EQ(failure.category(), error_category::peer);
  ASSERT_TRUE(failure.completion().has_value());
  EXPECT_EQ(failure.completion()->queue_pair, qpn(0x11));
  EXPECT_EQ(failure.completion()->request, wr_id(7));
  EXPECT_EQ(failure.completion()->vendor_code, 0xf8U);
  EXPECT_EQ(failure.message(),
            "work request failed: remote_access_error (queue pair 0x11, request 7, vendor code "
            "0xf8) [hint: rkey invalid or revoked, "
            "out of bounds, or the peer's region lacks the access (remote_read, remote_write, "
            "remote_atomic)]");
}

TEST(work_completion, every_status_has_a_category_and_a_hint) {
  for (unsigned value = 1; value <= IBV_WC_TM_RNDV_INCOMPLETE; ++value) {
    const auto status = wc_status(value);
    const auto failure = work_completion(failed(status)).error();

    EXPECT_EQ(failure.code(), status);
    EXPECT_EQ(failure.code().message(), describe(status));
    EXPECT_EQ(failure.hint().empty(), without_hint.contains(status)) << describe(status);
    EXPECT_EQ(failure.category() == error_category::unknown, status == wc_status::general_error)
        << describe(status);
  }
}

TEST(work_completion, an_unknown_status_is_still_an_error) {
  constexpr auto newer_than_this_library = wc_status(31);  // the largest that the C enum can hold
  const auto failure = work_completion(failed(newer_than_this_library)).error();

  EXPECT_TRUE(failure.code()) << "not a success";
  EXPECT_EQ(failure.category(), error_category::unknown);
  EXPECT_THAT(failure.message(), HasSubstr("unknown"));
}

TEST(work_completion, statuses_compare_with_portable_conditions) {
  struct pair {
    wc_status status;
    std::errc condition;
  };
  for (const auto& [status, condition] :
       {pair{wc_status::retry_exceeded, std::errc::timed_out},
        pair{wc_status::rnr_retry_exceeded, std::errc::timed_out},
        pair{wc_status::response_timeout, std::errc::timed_out},
        pair{wc_status::flushed, std::errc::operation_canceled},
        pair{wc_status::remote_access_error, std::errc::permission_denied},
        pair{wc_status::local_protection_error, std::errc::bad_address},
        pair{wc_status::local_length_error, std::errc::message_size},
        pair{wc_status::fatal, std::errc::io_error}}) {
    EXPECT_TRUE(completion_error(status, {}) == condition) << describe(status);
  }
  EXPECT_FALSE(completion_error(wc_status::general_error, {}) == std::errc::io_error);
  EXPECT_FALSE(completion_error(wc_status::bad_response, {}) == std::errc::bad_address);
}

TEST(work_completion, success_is_no_error_code) {
  EXPECT_FALSE(make_error_code(wc_status::success));
  EXPECT_STREQ(completion_category().name(), "rdmaxx.completion");
}

TEST(work_completion, is_described_in_one_line) {
  auto native = received();
  native.wr_id = 3;
  native.wc_flags = IBV_WC_WITH_IMM;
  native.imm_data = htonl(0x2a);

  EXPECT_EQ(describe(work_completion(native)),
            "request 3 on queue pair 0x11: success recv 4096 bytes imm 0x2a");
  EXPECT_EQ(describe(work_completion(failed(wc_status::flushed))),
            "request 7 on queue pair 0x11: flushed (vendor code 0xf8)")
      << "the opcode of a failure means nothing and is not shown";
}
