// Why a post was refused. Only reached on failure.

#include <cerrno>
#include <span>
#include <string>

#include <fmt/format.h>

#include <rdmaxx/core/check.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>

namespace RDMAXX_NAMESPACE {

namespace {

struct refused_request {
  std::string_view call;
  std::string_view queue;
  std::uint32_t sge_count;
  std::uint32_t max_sge;
  std::uint32_t capacity;
  std::uint64_t inline_bytes;  ///< 0 if the request is not inline
  bool state_allows;
};

struct explanation {
  std::string problem;
  std::string hint;
  std::optional<error_category> category{};
};

explanation explain(const queue_pair& qp, int errno_value, const refused_request& request,
                    std::optional<qp_state> state) {
  if (request.sge_count > request.max_sge) {
    return {fmt::format("{} elements, but the queue pair was created for {}", request.sge_count,
                        request.max_sge),
            fmt::format("create it with a larger max_{}_sge, or use fewer elements", request.queue),
            error_category::misuse};
  }
  if (request.inline_bytes > qp.max_inline()) {
    return {fmt::format("{} bytes inline, but the queue pair was created for {}",
                        request.inline_bytes, qp.max_inline()),
            "create it with a larger max_inline, or use inline_if_fits", error_category::misuse};
  }
  if (state && !request.state_allows) {
    return {fmt::format("queue pair {:#x} is in state {}", qp.number().value(), describe(*state)),
            *state == qp_state::error
                ? "state error: its first failed completion says why; drain() and reset() it, "
                  "then connect() again"
                : fmt::format("state {} does not take {} requests: connect() the queue pair first",
                              describe(*state), request.queue),
            *state == qp_state::error ? error_category::gone : error_category::misuse};
  }
  if (errno_value == ENOMEM || errno_value == EAGAIN || errno_value == ENOSPC) {
    return {fmt::format("the {} queue is full ({} requests)", request.queue, request.capacity),
            request.queue == "send"
                ? "poll the completion queue: a signaled completion frees its request and the "
                  "unsignaled ones before it"
                : "poll the completion queue: each completed receive frees a slot",
            error_category::retryable};
  }
  return {};
}

error refused(const queue_pair& qp, int errno_value, const refused_request& request,
              std::optional<qp_state> state, std::optional<std::size_t> position) {
  auto [problem, hint, category] = explain(qp, errno_value, request, state);
  // errno_error has a general hint; the specific one comes first.
  const auto general = errno_error(request.call, errno_value, {}, hint);
  return error({
      .operation = std::string(request.call),
      .code = general.code(),
      .category = category.value_or(general.category()),
      .problem = std::move(problem),
      .hint = std::string(general.hint()),
      .first_not_posted = position,
  });
}

/// The state, unless the device misreports it: iWARP drivers may always report reset.
std::optional<qp_state> known_state(const queue_pair& qp) {
  const auto state = qp.state();
  if (!state ||
      (*state == qp_state::reset && qp.pd().context().transport() == transport_type::iwarp))
    return std::nullopt;
  return *state;
}

}  // namespace

error queue_pair::post_failed(int rc, const ibv_send_wr& request,
                              std::optional<std::size_t> position) const {
  const int errno_value = errno_of(rc);
  std::uint64_t bytes = 0;
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    for (const auto& element :
         std::span(request.sg_list, static_cast<std::size_t>(request.num_sge)))
      bytes += element.length;
  }
  const auto state = known_state(*this);
  return refused(*this, errno_value,
                 {.call = "ibv_post_send",
                  .queue = "send",
                  .sge_count = static_cast<std::uint32_t>(request.num_sge),
                  .max_sge = capabilities().max_send_sge,
                  .capacity = capabilities().max_send_wr,
                  .inline_bytes = bytes,
                  .state_allows = state == qp_state::rts || state == qp_state::sqd},
                 state, position);
}

error queue_pair::post_failed(int rc, const ibv_recv_wr& request,
                              std::optional<std::size_t> position) const {
  const int errno_value = errno_of(rc);
  const auto state = known_state(*this);
  return refused(*this, errno_value,
                 {.call = "ibv_post_recv",
                  .queue = "recv",
                  .sge_count = static_cast<std::uint32_t>(request.num_sge),
                  .max_sge = capabilities().max_recv_sge,
                  .capacity = capabilities().max_recv_wr,
                  .inline_bytes = 0,
                  .state_allows = state != qp_state::reset && state != qp_state::error},
                 state, position);
}

// A driver that failed before it looked at any request may leave `refused_one` null.
error queue_pair::post_failed(int rc, const send_slot* list, const ibv_send_wr* refused_one) const {
  const auto position = send_list::position_of(list, refused_one);
  const auto& request = send_list::request_at(list, position);
  // Without a code the reason is one of the two that a driver detects before it rings the doorbell.
  const bool too_many_elements =
      static_cast<std::uint32_t>(request.num_sge) > capabilities().max_send_sge;
  const int likely_cause = too_many_elements ? EINVAL : ENOMEM;
  return post_failed(rc != 0 ? rc : likely_cause, request, position);
}

error queue_pair::post_failed(int rc, const recv_slot* list, const ibv_recv_wr* refused_one) const {
  const auto position = recv_list::position_of(list, refused_one);
  return post_failed(rc, recv_list::request_at(list, position), position);
}

}  // namespace RDMAXX_NAMESPACE
