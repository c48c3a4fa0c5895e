#include <rdmaxx/verbs/element_list.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

template <class Element>
std::string describe(const element_list<Element>& list) {
  return fmt::format("{} element{}, {} bytes", list.size(), list.size() == 1 ? "" : "s",
                     list.bytes());
}
template std::string describe(const gather_list& list);
template std::string describe(const scatter_list& list);

}  // namespace RDMAXX_NAMESPACE
