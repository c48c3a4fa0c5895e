#include "cm/connection_attempt.hpp"

#include <rdmaxx/core/readiness.hpp>

#include "cm/accept_failure.hpp"
#include "cm/time_until.hpp"

namespace RDMAXX_NAMESPACE::detail {

namespace {

result<void> answer(const cm_id& id, const cm_qp_config& config,
                    const connection_parameters& parameters) {
  if (!id.qp() && parameters.queue_pair == qpn{}) RDMAXX_TRY(id.create_qp(config));
  return id.accept(parameters);
}

}  // namespace

connection_attempt::connection_attempt(cm_id id, connection_steps steps,
                                       std::chrono::milliseconds timeout)
    : id_(std::move(id)),
      steps_(std::move(steps)),
      timeout_(timeout),
      deadline_(deadline_after(timeout)) {}

result<void> connection_attempt::begin(connection_action action, const inputs& given) {
  switch (action) {
    case connection_action::resolve_addr:
      return id_.resolve_addr(given.source, given.peer, time_until(deadline_));
    case connection_action::resolve_route:
      return id_.resolve_route(time_until(deadline_));
    case connection_action::connect:
      if (!id_.qp()) RDMAXX_TRY(id_.create_qp(*given.qp));
      return id_.connect(*given.parameters);
    case connection_action::accept:
      if (const auto answered = answer(id_, *given.qp, *given.parameters); !answered)
        return accept_failure(answered.error(), id_);
      return {};
    case connection_action::fail:
      return steps_.failure();
    case connection_action::wait:
    case connection_action::done:
      break;
  }
  return {};
}

result<void> connection_attempt::start(const inputs& given) {
  const auto begun = begin(steps_.start(), given);
  if (!begun) (void)steps_.on_refusal(begun.error());
  return begun;
}

result<bool> connection_attempt::advance(const inputs& given) {
  while (!steps_.is_over()) {
    RDMAXX_TRY(auto event, id_.channel().try_get_event());
    if (!event) {
      if (library_clock::now() < deadline_) return false;
      (void)steps_.on_deadline(timeout_);
      return steps_.failure();
    }
    if (!event->concerns(id_)) continue;
    const auto action = steps_.on_event(event->type(), event->outcome());
    if (action == connection_action::done) last_ = std::move(*event);
    event.reset();  // acknowledged before the next step starts
    if (const auto begun = begin(action, given); !begun) {
      if (action != connection_action::fail) (void)steps_.on_refusal(begun.error());
      return begun.error();
    }
  }
  return true;
}

result<void> connection_attempt::finish(const inputs& given) {
  RDMAXX_TRY(start(given));
  for (;;) {
    RDMAXX_TRY(const bool is_over, advance(given));
    if (is_over) return {};
    RDMAXX_TRY(wait_readable_until(fd(), deadline_));
  }
}

}  // namespace RDMAXX_NAMESPACE::detail
