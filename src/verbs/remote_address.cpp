#include <rdmaxx/verbs/remote_address.hpp>

#include <fmt/format.h>

namespace rdmaxx::inline v0 {

std::string describe(const remote_address& place) {
  return fmt::format("{:#x} with rkey {:#x}", place.address, place.key.value());
}

}  // namespace rdmaxx::inline v0
