#pragma once

// work_completion: the report on a finished work request.
//
//   std::array<work_completion, 16> wc;
//   for (const work_completion& c : cq.poll(wc).value()) {
//     if (!c) return c.error();                // says what went wrong and what to do
//     use(c.id(), c.byte_len());
//   }
//
// It is just an ibv_wc, so the device polls into arrays of it without conversion. On failure only
// id(), status(), vendor_code() and queue_pair() are meaningful.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <rdmaxx/core/error.hpp>
#include <rdmaxx/core/flags.hpp>
#include <rdmaxx/core/identifiers.hpp>

namespace RDMAXX_NAMESPACE {

enum class wc_status : std::uint8_t {
  success = IBV_WC_SUCCESS,
  local_length_error = IBV_WC_LOC_LEN_ERR,
  local_qp_operation_error = IBV_WC_LOC_QP_OP_ERR,
  local_eec_operation_error = IBV_WC_LOC_EEC_OP_ERR,
  local_protection_error = IBV_WC_LOC_PROT_ERR,
  flushed = IBV_WC_WR_FLUSH_ERR,
  memory_window_bind_error = IBV_WC_MW_BIND_ERR,
  bad_response = IBV_WC_BAD_RESP_ERR,
  local_access_error = IBV_WC_LOC_ACCESS_ERR,
  remote_invalid_request = IBV_WC_REM_INV_REQ_ERR,
  remote_access_error = IBV_WC_REM_ACCESS_ERR,
  remote_operation_error = IBV_WC_REM_OP_ERR,
  retry_exceeded = IBV_WC_RETRY_EXC_ERR,
  rnr_retry_exceeded = IBV_WC_RNR_RETRY_EXC_ERR,
  local_rdd_violation = IBV_WC_LOC_RDD_VIOL_ERR,
  remote_invalid_rd_request = IBV_WC_REM_INV_RD_REQ_ERR,
  remote_aborted = IBV_WC_REM_ABORT_ERR,
  invalid_eec_number = IBV_WC_INV_EECN_ERR,
  invalid_eec_state = IBV_WC_INV_EEC_STATE_ERR,
  fatal = IBV_WC_FATAL_ERR,
  response_timeout = IBV_WC_RESP_TIMEOUT_ERR,
  general_error = IBV_WC_GENERAL_ERR,
  tag_matching_error = IBV_WC_TM_ERR,
  tag_matching_rendezvous_incomplete = IBV_WC_TM_RNDV_INCOMPLETE,
};
[[nodiscard]] std::string_view describe(wc_status status) noexcept;

/// The category of std::error_codes whose values are wc_status.
[[nodiscard]] const std::error_category& completion_category() noexcept;
[[nodiscard]] std::error_code make_error_code(wc_status status) noexcept;

enum class wc_opcode : std::uint8_t {
  send = IBV_WC_SEND,
  rdma_write = IBV_WC_RDMA_WRITE,
  rdma_read = IBV_WC_RDMA_READ,
  compare_and_swap = IBV_WC_COMP_SWAP,
  fetch_and_add = IBV_WC_FETCH_ADD,
  bind_mw = IBV_WC_BIND_MW,
  local_invalidate = IBV_WC_LOCAL_INV,
  tso = IBV_WC_TSO,
  atomic_write = IBV_WC_ATOMIC_WRITE,
  recv = IBV_WC_RECV,
  recv_rdma_with_imm = IBV_WC_RECV_RDMA_WITH_IMM,
  tag_matching_add = IBV_WC_TM_ADD,
  tag_matching_delete = IBV_WC_TM_DEL,
  tag_matching_sync = IBV_WC_TM_SYNC,
  tag_matching_recv = IBV_WC_TM_RECV,
  tag_matching_no_tag = IBV_WC_TM_NO_TAG,
  driver1 = IBV_WC_DRIVER1,
  driver2 = IBV_WC_DRIVER2,
  driver3 = IBV_WC_DRIVER3,
};
[[nodiscard]] std::string_view describe(wc_opcode opcode) noexcept;

enum class wc_flag : std::uint32_t {
  grh = IBV_WC_GRH,  ///< a UD receive whose first 40 bytes are the GRH
  with_imm = IBV_WC_WITH_IMM,
  ip_checksum_ok = IBV_WC_IP_CSUM_OK,
  with_invalidate = IBV_WC_WITH_INV,
  tag_matching_sync_request = IBV_WC_TM_SYNC_REQ,
  tag_matching_match = IBV_WC_TM_MATCH,
  tag_matching_data_valid = IBV_WC_TM_DATA_VALID,
};
template <>
inline constexpr bool is_flag_enum<wc_flag> = true;
[[nodiscard]] std::string_view describe(wc_flag flag) noexcept;

class work_completion : private ibv_wc {
 public:
  // Left uninitialised, like an ibv_wc: the driver writes arrays of completions.
  work_completion() noexcept = default;
  explicit work_completion(const ibv_wc& native) noexcept : ibv_wc(native) {}

  [[nodiscard]] wc_status status() const noexcept { return wc_status(ibv_wc::status); }
  [[nodiscard]] bool is_success() const noexcept { return ibv_wc::status == IBV_WC_SUCCESS; }
  explicit operator bool() const noexcept { return is_success(); }

  [[nodiscard]] rdmaxx::wr_id id() const noexcept { return rdmaxx::wr_id(ibv_wc::wr_id); }
  /// Meaningful on success only.
  [[nodiscard]] wc_opcode opcode() const noexcept { return wc_opcode(ibv_wc::opcode); }
  /// True for the completion of a receive. Meaningful on success only.
  [[nodiscard]] bool is_receive() const noexcept { return (ibv_wc::opcode & IBV_WC_RECV) != 0; }
  /// Bytes received (for UD with the 40 of the GRH), or read; not defined for other requests.
  [[nodiscard]] std::uint32_t byte_len() const noexcept { return ibv_wc::byte_len; }
  [[nodiscard]] qpn queue_pair() const noexcept { return qpn(ibv_wc::qp_num); }
  /// UD: the sender.
  [[nodiscard]] qpn source_queue_pair() const noexcept { return qpn(ibv_wc::src_qp); }
  /// The sender's immediate data in host byte order, if it sent some.
  [[nodiscard]] std::optional<std::uint32_t> imm_data() const noexcept {
    if ((ibv_wc::wc_flags & IBV_WC_WITH_IMM) == 0) return std::nullopt;
    return ntohl(ibv_wc::imm_data);
  }
  /// The key that a SEND with invalidate invalidated, if any.
  [[nodiscard]] std::optional<rkey> invalidated_rkey() const noexcept {
    if ((ibv_wc::wc_flags & IBV_WC_WITH_INV) == 0) return std::nullopt;
    return rkey(ibv_wc::invalidated_rkey);
  }
  [[nodiscard]] rdmaxx::flags<wc_flag> flags() const noexcept {
    return rdmaxx::flags<wc_flag>::from_bits(ibv_wc::wc_flags);
  }
  /// The device's own code for a failure.
  [[nodiscard]] std::uint32_t vendor_code() const noexcept { return ibv_wc::vendor_err; }
  [[nodiscard]] std::uint16_t pkey_index() const noexcept { return ibv_wc::pkey_index; }
  [[nodiscard]] lid source_lid() const noexcept { return lid(ibv_wc::slid); }
  [[nodiscard]] std::uint8_t service_level() const noexcept { return ibv_wc::sl; }
  [[nodiscard]] std::uint8_t destination_path_bits() const noexcept {
    return ibv_wc::dlid_path_bits;
  }

  /// The failure, with a hint. Call it only if the completion failed.
  [[nodiscard]] rdmaxx::error error() const;

  [[nodiscard]] const ibv_wc& native() const noexcept { return *this; }

 private:
  friend class completion_queue;
};

static_assert(sizeof(work_completion) == sizeof(ibv_wc) &&
              alignof(work_completion) == alignof(ibv_wc));
static_assert(std::is_standard_layout_v<work_completion> && std::is_trivial_v<work_completion>);

[[nodiscard]] std::string describe(const work_completion& completion);

/// The error that a failed completion with this status stands for.
[[nodiscard]] error completion_error(wc_status status, const completion_origin& origin);

}  // namespace RDMAXX_NAMESPACE

template <>
struct std::is_error_code_enum<rdmaxx::wc_status> : std::true_type {};
