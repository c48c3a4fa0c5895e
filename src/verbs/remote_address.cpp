#include <rdmaxx/verbs/remote_address.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

std::string describe(const remote_address& place) {
  return fmt::format("{:#x} with rkey {:#x}", place.address, place.key.value());
}

}  // namespace RDMAXX_NAMESPACE
