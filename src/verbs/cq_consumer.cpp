#include <rdmaxx/verbs/cq_consumer.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

template class basic_cq_consumer<completion_queue>;

std::string describe(const cq_consumer& consumer) {
  return fmt::format("consumer of {}", describe(consumer.source()));
}

}  // namespace RDMAXX_NAMESPACE
