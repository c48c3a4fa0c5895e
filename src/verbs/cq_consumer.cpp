#include <rdmaxx/verbs/cq_consumer.hpp>

#include <fmt/format.h>

namespace rdmaxx::inline v0 {

template class basic_cq_consumer<completion_queue>;

std::string describe(const cq_consumer& consumer) {
  return fmt::format("consumer of {}", describe(consumer.source()));
}

}  // namespace rdmaxx::inline v0
