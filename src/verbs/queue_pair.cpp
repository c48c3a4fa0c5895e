// Creating a queue pair, querying and modifying it. Connecting is in queue_pair_connect.cpp, the
// explanation of refused posts in queue_pair_post.cpp, draining in queue_pair_drain.cpp.

#include <rdmaxx/verbs/queue_pair.hpp>

#include <array>
#include <cerrno>
#include <random>
#include <string>

#include <fmt/format.h>

#include <rdmaxx/core/check.hpp>

#include "context_block.hpp"
#include "qp_block.hpp"
#include "qp_creation.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

psn random_psn() {
  std::random_device entropy;
  return psn(entropy() & 0xffffffU);
}

/// drain() needs one slot in each queue for its marker, because the caller may use all of its own.
std::uint32_t with_marker_slot(std::uint32_t wanted, std::uint32_t limit) noexcept {
  return wanted < limit ? wanted + 1 : wanted;
}

std::uint32_t without_marker_slot(std::uint32_t granted, std::uint32_t asked,
                                  std::uint32_t wanted) noexcept {
  return asked > wanted && granted > wanted ? granted - 1 : granted;
}

/// Which of the requested capabilities exceed the device's limits.
error creation_failed(std::string_view call, int errno_value, const queue_pair_config& config,
                      const context& ctx) {
  struct wish {
    std::string_view name;
    std::uint32_t wanted;
    std::uint32_t limit;
  };
  const auto& limits = detail::block_of(ctx).limits;
  const auto& wanted = config.capabilities;
  std::string problem;
  std::string hint;
  for (const auto& [name, value, limit] :
       {wish{"max_send_wr", wanted.max_send_wr, limits.max_qp_wr},
        wish{"max_recv_wr", wanted.max_recv_wr, limits.max_qp_wr},
        wish{"max_send_sge", wanted.max_send_sge, limits.max_sge},
        wish{"max_recv_sge", wanted.max_recv_sge, limits.max_sge}}) {
    if (value <= limit) continue;
    problem += fmt::format("{}{} {} exceeds {}", problem.empty() ? "" : ", ", name, value, limit);
    hint += fmt::format("{}ask for {} of at most {}", hint.empty() ? "" : ", ", name, limit);
  }
  if (problem.empty()) {
    problem = fmt::format("{} with {}", describe(config.type), describe(wanted));
    if (errno_value == EOPNOTSUPP || errno_value == EPROTONOSUPPORT ||
        ctx.transport() == transport_type::iwarp) {
      hint = fmt::format("{} ({}) may not have {} queue pairs", ctx.device_name(),
                         describe(ctx.transport()), describe(config.type));
    } else if (wanted.max_inline > 0) {
      hint = fmt::format("max_inline {} may be more than the device supports: ask for less",
                         wanted.max_inline);
    }
  } else {
    problem = fmt::format("{} of {}", problem, ctx.device_name());
  }
  return errno_error(call, errno_value, problem, hint);
}

constexpr qp_attribute_mask everything_but_rare{
    qp_attribute::state,         qp_attribute::access,       qp_attribute::pkey_index,
    qp_attribute::port,          qp_attribute::queue_key,    qp_attribute::path,
    qp_attribute::path_mtu,      qp_attribute::ack_timeout,  qp_attribute::retry_count,
    qp_attribute::rnr_retry,     qp_attribute::rq_psn,       qp_attribute::max_rd_atomic,
    qp_attribute::sq_psn,        qp_attribute::destination,  qp_attribute::max_dest_rd_atomic,
    qp_attribute::min_rnr_timer, qp_attribute::capabilities, qp_attribute::path_migration,
};

/// The attributes that are meaningful for a type of queue pair in a state.
qp_attribute_mask meaningful(qp_type type, qp_state now) noexcept {
  using enum qp_attribute;
  qp_attribute_mask mask{qp_attribute::state, capabilities};
  if (now == qp_state::reset) return mask;
  mask |= {pkey_index, port};
  if (type == qp_type::ud) {
    mask |= {queue_key, sq_psn};
    return mask;
  }
  mask |= {qp_attribute::access};
  if (now == qp_state::init) return mask;
  mask |= {path, path_mtu, destination, rq_psn, sq_psn};
  if (type == qp_type::rc)
    mask |= {ack_timeout, retry_count, rnr_retry, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer};
  return mask;
}

}  // namespace

result<queue_pair> detail::create_queue_pair(const protection_domain& pd,
                                             const queue_pair_config& config, qp_creation how) {
  RDMAXX_TRY(handle_access::check_process(pd, how.call));
  if (!config.send_cq || !config.recv_cq) {
    return misuse_error("create_qp", "send_cq and recv_cq must both be given",
                        "they may be the same queue");
  }
  const auto& ctx = pd.context();
  if (config.send_cq.context() != ctx || config.recv_cq.context() != ctx) {
    return misuse_error("create_qp",
                        "a completion queue belongs to another context than the protection domain");
  }
  if (config.srq && config.srq.pd().context() != ctx) {
    return misuse_error("create_qp", "the shared receive queue belongs to another context");
  }
  auto* const block = new qp_block(
      {.pd = pd, .send_cq = config.send_cq, .recv_cq = config.recv_cq, .srq = config.srq});
  reference held(block);

  const auto& wanted = config.capabilities;
  const auto limit = block_of(ctx).limits.max_qp_wr;
  const auto send_slots = with_marker_slot(wanted.max_send_wr, limit);
  const auto recv_slots = with_marker_slot(wanted.max_recv_wr, limit);
  // Without anything beyond the domain this is ibv_create_qp, which every device has.
  ibv_qp_init_attr_ex attributes{};
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
  attributes.pd = pd.native();
  attributes.qp_context = block;
  attributes.send_cq = config.send_cq.native();
  attributes.recv_cq = config.recv_cq.native();
  attributes.srq = config.srq.native();
  attributes.cap = {.max_send_wr = send_slots,
                    .max_recv_wr = recv_slots,
                    .max_send_sge = wanted.max_send_sge,
                    .max_recv_sge = wanted.max_recv_sge,
                    .max_inline_data = wanted.max_inline};
  attributes.qp_type = static_cast<ibv_qp_type>(config.type);
  attributes.sq_sig_all = config.signal_all ? 1 : 0;

  block->native = how.make(attributes);
  if (block->native == nullptr) return creation_failed(how.call, errno, config, ctx);
  block->adopted = std::move(how.end);
  block->granted = {.max_send_wr = without_marker_slot(attributes.cap.max_send_wr, send_slots,
                                                       wanted.max_send_wr),
                    .max_recv_wr = without_marker_slot(attributes.cap.max_recv_wr, recv_slots,
                                                       wanted.max_recv_wr),
                    .max_send_sge = attributes.cap.max_send_sge,
                    .max_recv_sge = attributes.cap.max_recv_sge,
                    .max_inline = attributes.cap.max_inline_data};
  block->first_psn = random_psn();
  block_of(ctx).objects.add(block->native, *block);
  return handle_access::make<queue_pair>(block->native, std::move(held), block->granted.max_inline);
}

result<queue_pair> protection_domain::create_qp(const queue_pair_config& config) const {
  return detail::create_queue_pair(*this, config, {.make = [this](ibv_qp_init_attr_ex& attributes) {
    return ibv_create_qp_ex(context().native(), &attributes);
  }});
}

result<queue_pair> queue_pair::adopt(ibv_qp* native, const queue_pair_parents& parents,
                                     adoption how) {
  if (native == nullptr || !parents.pd || !parents.send_cq || !parents.recv_cq) {
    return misuse_error("queue_pair::adopt",
                        "the C queue pair, its domain and its completion queues must all be given");
  }
  if (native->pd != parents.pd.native() || native->send_cq != parents.send_cq.native() ||
      native->recv_cq != parents.recv_cq.native()) {
    return misuse_error(
        "queue_pair::adopt",
        "the domain or a completion queue is not the one the queue pair was created with");
  }
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made_with{};
  RDMAXX_TRY(check(ibv_query_qp(native, &attributes, IBV_QP_CAP, &made_with), "ibv_query_qp"));
  auto* const block = new detail::qp_block(parents);
  detail::reference reference(block);
  block->native = native;
  block->adopted = std::move(how);
  block->granted = qp_attributes::from_native(attributes, qp_attribute::capabilities)
                       .capabilities.value_or(qp_capabilities{});
  block->first_psn = random_psn();
  detail::block_of(parents.pd.context()).objects.add(native, *block);
  return queue_pair(native, std::move(reference), block->granted.max_inline);
}

const qp_capabilities& queue_pair::capabilities() const noexcept {
  return detail::block_of(*this).granted;
}
const protection_domain& queue_pair::pd() const noexcept {
  return detail::block_of(*this).parents.pd;
}
const completion_queue& queue_pair::send_cq() const noexcept {
  return detail::block_of(*this).parents.send_cq;
}
const completion_queue& queue_pair::recv_cq() const noexcept {
  return detail::block_of(*this).parents.recv_cq;
}

const shared_receive_queue& queue_pair::srq() const noexcept {
  return detail::block_of(*this).parents.srq;
}

result<qp_attributes> queue_pair::query() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made_with{};
  RDMAXX_TRY(check(
      ibv_query_qp(live(), &attributes, static_cast<int>(everything_but_rare.bits()), &made_with),
      "ibv_query_qp"));
  auto described =
      qp_attributes::from_native(attributes, meaningful(type(), qp_state(attributes.qp_state)));
  described.capabilities = capabilities();
  return described;
}

result<qp_state> queue_pair::state() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made_with{};
  RDMAXX_TRY(check(ibv_query_qp(live(), &attributes, IBV_QP_STATE, &made_with), "ibv_query_qp"));
  return qp_state(attributes.qp_state);
}

result<void> queue_pair::modify(const qp_attributes& attributes) const {
  auto native_attributes = attributes.native();
  const auto mask = attributes.mask();
  const int rc = ibv_modify_qp(live(), &native_attributes, static_cast<int>(mask.bits()));
  if (rc == 0) {
    if (attributes.state == qp_state::reset) detail::block_of(*this).first_psn = random_psn();
    return {};
  }
  const int errno_value = errno_of(rc);
  // The device decides what is legal; the specification's table only explains its refusal.
  std::string problem;
  if (const auto now = state())
    problem = explain_transition(type(), *now, attributes.state.value_or(*now), mask);
  if (problem.empty())
    problem = fmt::format("queue pair {:#x}: {}", number().value(), describe(attributes));
  return errno_error("ibv_modify_qp", errno_value, problem);
}

result<void> queue_pair::to_error() const { return modify({.state = qp_state::error}); }

result<void> queue_pair::reset() const { return modify({.state = qp_state::reset}); }

std::string describe(const queue_pair_config& config) {
  return fmt::format("{} {}{}{}", describe(config.type), describe(config.capabilities),
                     config.signal_all ? " signal_all" : "", config.srq ? " with an srq" : "");
}

std::string describe(const queue_pair& qp) {
  if (!qp) return "queue_pair (empty)";
  std::string text = fmt::format("queue_pair {:#x} {}", qp.number().value(), describe(qp.type()));
  const auto queried = qp.query();
  const qp_attributes now = queried ? *queried : qp_attributes{};
  if (now.state) text += fmt::format(" {}", describe(*now.state));
  if (now.destination && now.path) {
    text +=
        fmt::format(" → {:#x} at {}", now.destination->value(), describe(now.path->destination));
  }
  return text + fmt::format(" on {}", qp.pd().context().device_name());
}

}  // namespace RDMAXX_NAMESPACE
