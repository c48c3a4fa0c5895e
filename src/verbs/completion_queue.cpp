#include <rdmaxx/verbs/completion_queue.hpp>

#include <cerrno>
#include <limits>

#include <fmt/format.h>

#include <rdmaxx/core/check.hpp>

#include "channel_block.hpp"
#include "context_block.hpp"
#include "cq_block.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

/// Why the device refused a queue of this size.
error capacity_error(std::string_view operation, int errno_value, std::uint32_t capacity,
                     const context& ctx) {
  const auto limit = detail::block_of(ctx).limits.max_cqe;
  std::string problem = fmt::format("capacity {}", capacity);
  std::string hint;
  if (capacity == 0) {
    hint = "a completion queue holds at least one completion";
  } else if (capacity > limit) {
    problem += fmt::format(" exceeds the limit of {}", ctx.device_name());
    hint = fmt::format("ask for at most {} completions", limit);
  }
  return errno_error(operation, errno_value, problem, hint);
}

constexpr std::uint32_t largest_int = std::numeric_limits<int>::max();

/// Extended queues serve ibv_poll_cq as well. Drivers without them (siw) have ordinary ones.
ibv_cq* create_native(ibv_context* native, ibv_cq_init_attr_ex& attributes, ibv_cq_ex*& extended) {
  extended = ibv_create_cq_ex(native, &attributes);
  if (extended != nullptr) return ibv_cq_ex_to_cq(extended);
  if (errno != EOPNOTSUPP && errno != ENOSYS) return nullptr;
  return ibv_create_cq(native, static_cast<int>(attributes.cqe), attributes.cq_context,
                       attributes.channel, static_cast<int>(attributes.comp_vector));
}

}  // namespace

result<completion_queue> context::create_cq(const completion_queue_config& config) const {
  RDMAXX_TRY(detail::handle_access::check_process(*this, "ibv_create_cq"));
  if (config.capacity == 0 || config.capacity > largest_int) {
    return capacity_error("create_cq", EINVAL, config.capacity, *this);
  }
  if (config.channel && config.channel.context() != *this) {
    return misuse_error("create_cq", "the completion channel belongs to another context");
  }
  const auto vectors = static_cast<std::uint32_t>(live()->num_comp_vectors);
  if (config.completion_vector >= vectors) {
    return misuse_error(
        "create_cq",
        fmt::format("{} has no completion vector {}", device_name(), config.completion_vector),
        fmt::format("vectors count from 0; {} has {}", device_name(), vectors));
  }
  auto* const block = new detail::cq_block(*this, config.channel);
  detail::reference reference(block);
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = config.capacity;
  attributes.cq_context = block;
  attributes.channel = config.channel.native();
  attributes.comp_vector = config.completion_vector;
  attributes.wc_flags = IBV_WC_STANDARD_FLAGS;
  block->native = create_native(live(), attributes, block->extended);
  if (block->native == nullptr)
    return capacity_error("ibv_create_cq", errno, config.capacity, *this);
  block->enter();
  return detail::handle_access::make<completion_queue>(block->native, std::move(reference));
}

result<completion_queue> completion_queue::adopt(ibv_cq* native, const rdmaxx::context& ctx,
                                                 const completion_channel& channel, adoption how) {
  if (native == nullptr || !ctx)
    return misuse_error("completion_queue::adopt", "the C queue or the context is null");
  if (native->context != ctx.native())
    return misuse_error("completion_queue::adopt", "the queue belongs to another context");
  if (native->channel != channel.native()) {
    return misuse_error("completion_queue::adopt",
                        "the channel is not the one that the queue was created with",
                        "adopt that channel first, and pass it here");
  }
  auto* const block = new detail::cq_block(ctx, channel);
  detail::reference reference(block);
  block->native = native;
  block->adopted = std::move(how);
  block->enter();
  return completion_queue(native, std::move(reference));
}

bool completion_queue::claim_consumer() const noexcept {
  return !detail::block_of(*this).has_consumer.test_and_set();
}

void completion_queue::release_consumer() const noexcept {
  detail::block_of(*this).has_consumer.clear();
}

ibv_cq_ex* completion_queue::native_extended() const noexcept {
  return detail::block_of(*this).extended;
}

const rdmaxx::context& completion_queue::context() const noexcept {
  return detail::block_of(*this).parent;
}

const completion_channel& completion_queue::channel() const noexcept {
  return detail::block_of(*this).channel;
}

result<void> completion_queue::resize(std::uint32_t capacity) const {
  if (capacity == 0 || capacity > largest_int)
    return capacity_error("resize", EINVAL, capacity, context());
  const int rc = ibv_resize_cq(live(), static_cast<int>(capacity));
  if (rc != 0) return capacity_error("ibv_resize_cq", errno_of(rc), capacity, context());
  return {};
}

error poll_result::error() const {
  return errno_error("ibv_poll_cq", errno_of(count_), {},
                     "the completion queue is broken: see the device's asynchronous events");
}

error completion_queue::notify_failed(int rc) const {
  return errno_error("ibv_req_notify_cq", errno_of(rc), {},
                     channel() ? "" : "the queue was created without a completion channel");
}

std::string describe(const completion_queue_config& config) {
  return fmt::format("capacity {} vector {}{}", config.capacity, config.completion_vector,
                     config.channel ? " with channel" : "");
}

std::string_view describe(notify kind) noexcept {
  switch (kind) {
    case notify::any:
      return "any";
    case notify::solicited:
      return "solicited";
  }
  return "unknown";
}

std::string describe(const completion_queue& cq) {
  if (!cq) return "completion_queue (empty)";
  return fmt::format("completion_queue {} capacity {} on {}", cq.native()->handle, cq.capacity(),
                     cq.context().device_name());
}

}  // namespace RDMAXX_NAMESPACE
