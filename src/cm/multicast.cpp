#include <rdmaxx/cm/multicast.hpp>

namespace rdmaxx::inline v0 {

std::string_view describe(multicast_membership kind) noexcept {
  switch (kind) {
    case multicast_membership::full:
      return "full";
    case multicast_membership::send_only:
      return "send_only";
  }
  return "unknown";
}

}  // namespace rdmaxx::inline v0
