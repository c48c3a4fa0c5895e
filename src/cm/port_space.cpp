#include <rdmaxx/cm/port_space.hpp>

namespace RDMAXX_NAMESPACE {

std::string_view describe(port_space space) noexcept {
  switch (space) {
    case port_space::tcp:
      return "tcp";
    case port_space::udp:
      return "udp";
    case port_space::ipoib:
      return "ipoib";
    case port_space::ib:
      return "ib";
  }
  return "unknown";
}

}  // namespace RDMAXX_NAMESPACE
