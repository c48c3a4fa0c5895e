#include <rdmaxx/verbs/ack_timeout.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

std::string describe(ack_timeout timeout) {
  if (timeout.is_never()) return "never (exponent 0)";
  return fmt::format("{:.3g} ms (exponent {})",
                     std::chrono::duration<double, std::milli>(timeout.duration()).count(),
                     timeout.exponent());
}

}  // namespace RDMAXX_NAMESPACE
