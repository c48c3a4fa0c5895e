#include <rdmaxx/verbs/shared_receive_queue.hpp>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include <rdmaxx/core/check.hpp>
#include <rdmaxx/verbs/native_request.hpp>
#include <rdmaxx/verbs/observer.hpp>

#include "srq_block.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

error creation_failed(int errno_value, const shared_receive_queue_config& config,
                      const context& ctx) {
  const auto& limits = detail::block_of(ctx).limits;
  std::string hint;
  if (limits.max_srq == 0) {
    hint = fmt::format("{} has no shared receive queues", ctx.device_name());
  } else if (config.capacity == 0 || config.capacity > limits.max_srq_wr) {
    hint = fmt::format("capacities from 1 to {} are possible", limits.max_srq_wr);
  } else if (config.max_sge > limits.max_srq_sge) {
    hint = fmt::format("ask for max_sge of at most {}", limits.max_srq_sge);
  }
  return errno_error("ibv_create_srq", errno_value,
                     fmt::format("{} on {}", describe(config), ctx.device_name()), hint);
}

error post_failed(int rc, const recv_wr& request) {
  const int errno_value = errno_of(rc);
  return errno_error("ibv_post_srq_recv", errno_value, describe(request),
                     errno_value == ENOMEM
                         ? "the queue is full: create it with a larger capacity, or post later"
                         : "");
}

}  // namespace

std::string describe(const shared_receive_queue_config& config) {
  return fmt::format("capacity {} max_sge {}", config.capacity, config.max_sge);
}

result<shared_receive_queue> protection_domain::create_srq(
    const shared_receive_queue_config& config) const {
  RDMAXX_TRY(detail::handle_access::check_process(*this, "ibv_create_srq"));
  auto* const block = new detail::srq_block(*this);
  detail::reference held(block);
  // Without anything beyond the domain this is ibv_create_srq, which every device has.
  ibv_srq_init_attr_ex attributes{};
  attributes.srq_context = block;
  attributes.attr = {.max_wr = config.capacity, .max_sge = config.max_sge, .srq_limit = 0};
  attributes.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  attributes.pd = live();
  block->native = ibv_create_srq_ex(context().native(), &attributes);
  if (block->native == nullptr) return creation_failed(errno, config, context());
  block->capacity = attributes.attr.max_wr;
  detail::block_of(context()).objects.add(block->native, *block);
  return detail::handle_access::make<shared_receive_queue>(block->native, std::move(held));
}

result<shared_receive_queue> shared_receive_queue::adopt(ibv_srq* native,
                                                         const protection_domain& pd,
                                                         adoption how) {
  if (native == nullptr || !pd)
    return misuse_error("shared_receive_queue::adopt", "the C queue or the domain is null");
  if (native->pd != pd.native())
    return misuse_error("shared_receive_queue::adopt", "the queue belongs to another domain");
  ibv_srq_attr now{};
  if (auto told = check(ibv_query_srq(native, &now), "ibv_query_srq"); !told) {
    if (told.error() != std::errc::operation_not_supported) return told.error();
    now.max_wr = 0;  // siw
  }
  auto* const block = new detail::srq_block(pd);
  detail::reference held(block);
  block->native = native;
  block->adopted = std::move(how);
  block->capacity = now.max_wr;
  detail::block_of(pd.context()).objects.add(native, *block);
  return shared_receive_queue(native, std::move(held));
}

const protection_domain& shared_receive_queue::pd() const noexcept {
  return detail::block_of(*this).pd;
}

std::uint32_t shared_receive_queue::capacity() const noexcept {
  return detail::block_of(*this).capacity;
}

result<void> shared_receive_queue::post(const recv_wr& request) const {
  ibv_recv_wr wr{};
  ibv_sge place;
  detail::fill(wr, place, request);
  detail::observer::posting(live(), &wr);
  ibv_recv_wr* refused = nullptr;
  const int rc = ibv_post_srq_recv(live(), &wr, &refused);
  if (rc == 0) [[likely]]
    return {};
  detail::observer::refused(live(), &wr);
  return post_failed(rc, request);
}

result<void> shared_receive_queue::post(const recv_list& list) const {
  if (list.empty()) return {};
  ibv_recv_wr* const chain = list.chain();
  detail::observer::posting(live(), chain);
  ibv_recv_wr* refused = nullptr;
  const int rc = ibv_post_srq_recv(live(), chain, &refused);
  if (rc != 0) [[unlikely]]
    detail::observer::refused(live(), refused != nullptr ? refused : chain);
  list.unchain();
  if (rc == 0) [[likely]]
    return {};
  const auto position = recv_list::position_of(list.slots(), refused);
  const std::error_code code(errno_of(rc), std::generic_category());
  return error({.operation = "ibv_post_srq_recv",
                .code = code,
                .category = category_of(code),
                .problem = fmt::format("request {} of {}", position, list.size()),
                .first_not_posted = position});
}

result<void> shared_receive_queue::set_limit(std::uint32_t receives) const {
  ibv_srq_attr wanted{.max_wr = 0, .max_sge = 0, .srq_limit = receives};
  return check(ibv_modify_srq(live(), &wanted, IBV_SRQ_LIMIT), "ibv_modify_srq");
}

result<std::uint32_t> shared_receive_queue::limit() const {
  ibv_srq_attr now{};
  RDMAXX_TRY(check(ibv_query_srq(live(), &now), "ibv_query_srq"));
  return now.srq_limit;
}

std::string describe(const shared_receive_queue& srq) {
  if (!srq) return "shared_receive_queue (empty)";
  return fmt::format("shared_receive_queue of {} on {}", srq.capacity(),
                     srq.pd().context().device_name());
}

}  // namespace RDMAXX_NAMESPACE
