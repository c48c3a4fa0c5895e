#include <rdmaxx/verbs/work_request.hpp>

#include <concepts>

#include <fmt/format.h>

#include <rdmaxx/verbs/operation.hpp>

namespace RDMAXX_NAMESPACE {

namespace {

template <send_operation Request>
std::string describe_request(const Request& request) {
  using described = operation<Request>;
  auto text = fmt::format("{} {} of {} bytes", described::name, request.id.value(),
                          described::elements(request).bytes());
  if constexpr (has_immediate<Request>) {
    if (request.imm) text += fmt::format(" imm {:#x}", *request.imm);
  }
  if constexpr (remote_operation<Request>) {
    const bool brings = std::same_as<decltype(described::elements(request)), const scatter_list&>;
    text += fmt::format(" {} {}", brings ? "from" : "to", describe(described::remote(request)));
  }
  if constexpr (datagram_operation<Request>) {
    text += fmt::format(" to queue pair {:#x}", described::destination(request).queue_pair.value());
  }
  return text + fmt::format(" [{}]", describe(request.flags));
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

std::string describe(const send_wr& request) { return describe_request(request); }
std::string describe(const ud_send_wr& request) { return describe_request(request); }
std::string describe(const write_wr& request) { return describe_request(request); }
std::string describe(const read_wr& request) { return describe_request(request); }

std::string describe(const cas_wr& request) {
  return fmt::format("{} {} at {} [{}]", operation<cas_wr>::name, request.id.value(),
                     describe(request.at), describe(request.flags));
}

std::string describe(const faa_wr& request) {
  return fmt::format("{} {} of {} at {} [{}]", operation<faa_wr>::name, request.id.value(),
                     request.add, describe(request.at), describe(request.flags));
}

std::string describe(const recv_wr& request) {
  return fmt::format("recv {} of {} bytes", request.id.value(), request.into.bytes());
}

}  // namespace RDMAXX_NAMESPACE
