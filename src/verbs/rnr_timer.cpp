#include <rdmaxx/verbs/rnr_timer.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

std::string describe(rnr_timer timer) {
  return fmt::format("{:g} ms (code {})",
                     std::chrono::duration<double, std::milli>(timer.duration()).count(),
                     timer.code());
}

}  // namespace RDMAXX_NAMESPACE
