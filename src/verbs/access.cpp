#include <rdmaxx/verbs/access.hpp>

namespace RDMAXX_NAMESPACE {

std::string_view describe(access bit) noexcept {
  switch (bit) {
    case access::local_write:
      return "local_write";
    case access::remote_write:
      return "remote_write";
    case access::remote_read:
      return "remote_read";
    case access::remote_atomic:
      return "remote_atomic";
    case access::mw_bind:
      return "mw_bind";
    case access::zero_based:
      return "zero_based";
    case access::on_demand:
      return "on_demand";
    case access::huge_pages:
      return "huge_pages";
    case access::relaxed_ordering:
      return "relaxed_ordering";
  }
  return "unknown";
}

}  // namespace RDMAXX_NAMESPACE
