#include <rdmaxx/core/precondition.hpp>

#include <cstdio>
#include <cstdlib>

namespace RDMAXX_NAMESPACE::detail {

std::string short_name_of_call(std::string_view signature) {
  // Up to the parameters, without what is returned, and without the namespaces of this library.
  auto name = signature.substr(0, signature.find('('));
  if (const auto space = name.rfind(' '); space != std::string_view::npos)
    name.remove_prefix(space + 1);
  while (name.starts_with('&') || name.starts_with('*')) name.remove_prefix(1);
  for (const std::string_view outer : {"rdmaxx::", "v0::"}) {
    if (name.starts_with(outer)) name.remove_prefix(outer.size());
  }
  return std::string(name);
}

void precondition_failed(const char* problem, const char* hint, const call_site& call) noexcept {
  std::fprintf(stderr, "rdmaxx: %s() %s [hint: %s] (%s:%u)\n",
               short_name_of_call(call.function_name()).c_str(), problem, hint, call.file_name(),
               call.line());
  std::fflush(stderr);
  std::abort();
}

}  // namespace RDMAXX_NAMESPACE::detail
