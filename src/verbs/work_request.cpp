#include <rdmaxx/verbs/work_request.hpp>

#include <fmt/format.h>

namespace rdmaxx::inline v0 {

namespace {

std::string imm_text(const std::optional<std::uint32_t>& imm) {
  return imm ? fmt::format(" imm {:#x}", *imm) : "";
}

}  // namespace

std::string_view describe(send_flag flag) noexcept {
  switch (flag) {
    case send_flag::fence:
      return "fence";
    case send_flag::signaled:
      return "signaled";
    case send_flag::solicited:
      return "solicited";
    case send_flag::inline_data:
      return "inline_data";
    case send_flag::ip_checksum:
      return "ip_checksum";
    case send_flag::inline_if_fits:
      return "inline_if_fits";
  }
  return "unknown";
}

std::string describe(const send_wr& request) {
  return fmt::format("send {} of {} bytes{} [{}]", request.id.value(), request.from.bytes(),
                     imm_text(request.imm), describe(request.flags));
}

std::string describe(const ud_send_wr& request) {
  return fmt::format("ud_send {} of {} bytes{} to queue pair {:#x} [{}]", request.id.value(),
                     request.from.bytes(), imm_text(request.imm), request.remote_queue_pair.value(),
                     describe(request.flags));
}

std::string describe(const write_wr& request) {
  return fmt::format("write {} of {} bytes{} to {} [{}]", request.id.value(), request.from.bytes(),
                     imm_text(request.imm), describe(request.to), describe(request.flags));
}

std::string describe(const read_wr& request) {
  return fmt::format("read {} of {} bytes from {} [{}]", request.id.value(), request.into.bytes(),
                     describe(request.from), describe(request.flags));
}

std::string describe(const cas_wr& request) {
  return fmt::format("compare_and_swap {} at {} [{}]", request.id.value(), describe(request.at),
                     describe(request.flags));
}

std::string describe(const faa_wr& request) {
  return fmt::format("fetch_and_add {} of {} at {} [{}]", request.id.value(), request.add,
                     describe(request.at), describe(request.flags));
}

std::string describe(const recv_wr& request) {
  return fmt::format("recv {} of {} bytes", request.id.value(), request.into.bytes());
}

}  // namespace rdmaxx::inline v0
