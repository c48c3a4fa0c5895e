#include <rdmaxx/verbs/work_list.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

void detail::throw_list_full(std::size_t capacity) {
  throw exception(misuse_error("work_list::push", fmt::format("all {} slots are taken", capacity),
                               "post and clear() the list, or give it more slots"));
}

}  // namespace RDMAXX_NAMESPACE
