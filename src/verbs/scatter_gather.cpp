#include <rdmaxx/verbs/scatter_gather.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

namespace {

template <class Element>
std::string describe_element(const Element& element) {
  return fmt::format("{} bytes at {:#x} with lkey {:#x}", element.size(), element.address(),
                     element.key().value());
}

}  // namespace

std::string describe(const gather_element& element) { return describe_element(element); }
std::string describe(const scatter_element& element) { return describe_element(element); }

}  // namespace RDMAXX_NAMESPACE
