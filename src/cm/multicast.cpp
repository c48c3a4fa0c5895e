#include <rdmaxx/cm/multicast.hpp>

namespace RDMAXX_NAMESPACE {

std::string_view describe(multicast_membership kind) noexcept {
  switch (kind) {
    case multicast_membership::full:
      return "full";
    case multicast_membership::send_only:
      return "send_only";
  }
  return "unknown";
}

}  // namespace RDMAXX_NAMESPACE
