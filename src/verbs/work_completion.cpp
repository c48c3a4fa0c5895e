#include <rdmaxx/verbs/work_completion.hpp>

#include <array>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

namespace {

struct status_knowledge {
  wc_status status;
  std::string_view name;
  error_category category;
  std::string_view hint;
};

constexpr std::array known_statuses{
    status_knowledge{wc_status::success, "success", error_category::unknown, ""},
    status_knowledge{
        wc_status::local_length_error, "local_length_error", error_category::misuse,
        "the message is longer than the receive buffer, or than the port's max_message_bytes"},
    status_knowledge{wc_status::local_qp_operation_error, "local_qp_operation_error",
                     error_category::misuse,
                     "the request does not fit the queue pair: check its lengths, lkeys and the "
                     "queue pair's type and state"},
    status_knowledge{wc_status::local_eec_operation_error, "local_eec_operation_error",
                     error_category::misuse, ""},
    status_knowledge{wc_status::local_protection_error, "local_protection_error",
                     error_category::misuse,
                     "a scatter or gather element is not valid: lkey of another domain or of a "
                     "deregistered region, out of "
                     "bounds, or the region lacks local_write"},
    status_knowledge{wc_status::flushed, "flushed", error_category::gone,
                     "the queue pair is in the error state: the first failed completion before "
                     "this one says why"},
    status_knowledge{wc_status::memory_window_bind_error, "memory_window_bind_error",
                     error_category::misuse,
                     "the region lacks mw_bind, or the window is not of the queue pair's domain"},
    status_knowledge{wc_status::bad_response, "bad_response", error_category::peer,
                     "the peer answered with an unexpected packet"},
    status_knowledge{wc_status::local_access_error, "local_access_error", error_category::misuse,
                     "the peer wrote with immediate data to memory it may not write"},
    status_knowledge{
        wc_status::remote_invalid_request, "remote_invalid_request", error_category::peer,
        "the peer's receive buffer is too small, or its queue pair does not allow the operation"},
    status_knowledge{
        wc_status::remote_access_error, "remote_access_error", error_category::peer,
        "rkey invalid or revoked, out of bounds, or the peer's region lacks the access "
        "(remote_read, remote_write, remote_atomic)"},
    status_knowledge{wc_status::remote_operation_error, "remote_operation_error",
                     error_category::peer,
                     "the peer could not execute the operation: its receive buffer may be too "
                     "small or not valid"},
    status_knowledge{wc_status::retry_exceeded, "retry_exceeded", error_category::peer,
                     "the peer does not answer: dead, not yet in rtr, unreachable, or connected to "
                     "another queue pair or GID"},
    status_knowledge{wc_status::rnr_retry_exceeded, "rnr_retry_exceeded", error_category::peer,
                     "the peer posted no receive in time: post receives before the peer sends, or "
                     "raise rnr_retry (7: no limit)"},
    status_knowledge{wc_status::local_rdd_violation, "local_rdd_violation", error_category::misuse,
                     ""},
    status_knowledge{wc_status::remote_invalid_rd_request, "remote_invalid_rd_request",
                     error_category::peer, ""},
    status_knowledge{wc_status::remote_aborted, "remote_aborted", error_category::peer,
                     "the peer gave up the operation"},
    status_knowledge{wc_status::invalid_eec_number, "invalid_eec_number", error_category::misuse,
                     ""},
    status_knowledge{wc_status::invalid_eec_state, "invalid_eec_state", error_category::misuse, ""},
    status_knowledge{wc_status::fatal, "fatal", error_category::gone,
                     "the device failed: open it again"},
    status_knowledge{wc_status::response_timeout, "response_timeout", error_category::peer,
                     "the peer does not answer"},
    status_knowledge{wc_status::general_error, "general_error", error_category::unknown,
                     "see the vendor code and the kernel's log"},
    status_knowledge{wc_status::tag_matching_error, "tag_matching_error", error_category::misuse,
                     ""},
    status_knowledge{wc_status::tag_matching_rendezvous_incomplete,
                     "tag_matching_rendezvous_incomplete", error_category::misuse,
                     "the tag matching buffer is too small for the message"},
};

constexpr status_knowledge unknown_status{wc_status::general_error, "unknown",
                                          error_category::unknown, ""};

const status_knowledge& knowledge_of(wc_status status) noexcept {
  for (const auto& known : known_statuses) {
    if (known.status == status) return known;
  }
  return unknown_status;
}

class completion_error_category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "rdmaxx.completion"; }
  [[nodiscard]] std::string message(int status) const override {
    return std::string(describe(static_cast<wc_status>(status)));
  }
  [[nodiscard]] std::error_condition default_error_condition(int status) const noexcept override {
    switch (static_cast<wc_status>(status)) {
      case wc_status::retry_exceeded:
      case wc_status::rnr_retry_exceeded:
      case wc_status::response_timeout:
        return std::errc::timed_out;
      case wc_status::flushed:
        return std::errc::operation_canceled;
      case wc_status::remote_access_error:
        return std::errc::permission_denied;
      case wc_status::local_protection_error:
        return std::errc::bad_address;
      case wc_status::local_length_error:
        return std::errc::message_size;
      case wc_status::fatal:
        return std::errc::io_error;
      default:
        return {status, *this};
    }
  }
};

}  // namespace

std::string_view describe(wc_status status) noexcept { return knowledge_of(status).name; }

const std::error_category& completion_category() noexcept {
  static const completion_error_category category;
  return category;
}

std::error_code make_error_code(wc_status status) noexcept {
  return {static_cast<int>(status), completion_category()};
}

std::string_view describe(wc_opcode opcode) noexcept {
  switch (opcode) {
    case wc_opcode::send:
      return "send";
    case wc_opcode::rdma_write:
      return "rdma_write";
    case wc_opcode::rdma_read:
      return "rdma_read";
    case wc_opcode::compare_and_swap:
      return "compare_and_swap";
    case wc_opcode::fetch_and_add:
      return "fetch_and_add";
    case wc_opcode::bind_mw:
      return "bind_mw";
    case wc_opcode::local_invalidate:
      return "local_invalidate";
    case wc_opcode::tso:
      return "tso";
    case wc_opcode::atomic_write:
      return "atomic_write";
    case wc_opcode::recv:
      return "recv";
    case wc_opcode::recv_rdma_with_imm:
      return "recv_rdma_with_imm";
    case wc_opcode::tag_matching_add:
      return "tag_matching_add";
    case wc_opcode::tag_matching_delete:
      return "tag_matching_delete";
    case wc_opcode::tag_matching_sync:
      return "tag_matching_sync";
    case wc_opcode::tag_matching_recv:
      return "tag_matching_recv";
    case wc_opcode::tag_matching_no_tag:
      return "tag_matching_no_tag";
    case wc_opcode::driver1:
      return "driver1";
    case wc_opcode::driver2:
      return "driver2";
    case wc_opcode::driver3:
      return "driver3";
  }
  return "unknown";
}

std::string_view describe(wc_flag flag) noexcept {
  switch (flag) {
    case wc_flag::grh:
      return "grh";
    case wc_flag::with_imm:
      return "with_imm";
    case wc_flag::ip_checksum_ok:
      return "ip_checksum_ok";
    case wc_flag::with_invalidate:
      return "with_invalidate";
    case wc_flag::tag_matching_sync_request:
      return "tag_matching_sync_request";
    case wc_flag::tag_matching_match:
      return "tag_matching_match";
    case wc_flag::tag_matching_data_valid:
      return "tag_matching_data_valid";
  }
  return "unknown";
}

error completion_error(wc_status status, const completion_origin& origin) {
  const auto& known = knowledge_of(status);
  return error({
      .operation = "work request",
      .code = make_error_code(status),
      .category = known.category,
      .hint = std::string(known.hint),
      .completion = origin,
  });
}

error work_completion::error() const {
  return completion_error(
      status(), {.queue_pair = queue_pair(), .request = id(), .vendor_code = vendor_code()});
}

std::string describe(const work_completion& completion) {
  const auto head = fmt::format("request {} on queue pair {:#x}: {}", completion.id().value(),
                                completion.queue_pair().value(), describe(completion.status()));
  if (!completion) return fmt::format("{} (vendor code {:#x})", head, completion.vendor_code());
  std::string text = fmt::format("{} {}", head, describe(completion.opcode()));
  // Only receives bring data; rxe sets the flag of immediate data on sends, too.
  if (!completion.is_receive()) return text;
  text += fmt::format(" {} bytes", completion.byte_len());
  if (const auto imm = completion.imm_data()) text += fmt::format(" imm {:#x}", *imm);
  return text;
}

}  // namespace RDMAXX_NAMESPACE
