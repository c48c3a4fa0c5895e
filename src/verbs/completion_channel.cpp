#include <rdmaxx/verbs/completion_channel.hpp>

#include <cerrno>

#include <fmt/format.h>

#include <rdmaxx/core/check.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>

#include "channel_block.hpp"
#include "cq_block.hpp"

namespace RDMAXX_NAMESPACE {

result<completion_channel> context::create_completion_channel() const {
  RDMAXX_TRY(detail::handle_access::check_process(*this, "ibv_create_comp_channel"));
  auto* const block = new detail::channel_block(*this);
  detail::reference reference(block);
  RDMAXX_TRY(block->native, check(ibv_create_comp_channel(live()), "ibv_create_comp_channel"));
  // Blocking reads could have no timeout, and threads that share the channel could hang.
  RDMAXX_TRY(set_nonblocking(block->native->fd));
  return detail::handle_access::make<completion_channel>(block->native, std::move(reference));
}

result<completion_channel> completion_channel::adopt(ibv_comp_channel* native,
                                                     const rdmaxx::context& ctx, adoption how) {
  if (native == nullptr || !ctx)
    return misuse_error("completion_channel::adopt", "the C channel or the context is null");
  if (native->context != ctx.native())
    return misuse_error("completion_channel::adopt", "the channel belongs to another context");
  RDMAXX_TRY(set_nonblocking(native->fd));
  auto* const block = new detail::channel_block(ctx);
  block->native = native;
  block->adopted = std::move(how);
  return completion_channel(native, detail::reference(block));
}

completion_queue cq_event::queue() const noexcept {
  if (!block_) return {};
  return detail::handle_access::make<completion_queue>(native_, block_);
}

void cq_event::acknowledge() noexcept {
  if (native_ == nullptr) return;
  auto* const cq = std::exchange(native_, nullptr);
  if (block_) {
    // An event always refers to a completion queue's block.
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-static-cast-downcast)
    auto* const queue = static_cast<detail::cq_block*>(block_.get());
    if (!queue->is_made_before_fork()) queue->event_ended();
  } else if (!channel_.get()->is_made_before_fork()) {
    ibv_ack_cq_events(cq, 1);  // its owner may wait for that
  }
  block_ = {};
  channel_ = {};
}

namespace {
constexpr const char* no_channel =
    "a completion queue has the channel that it was created with: create_cq({.channel = …})";
}

std::string describe(const cq_event& event) {
  if (event.native() != nullptr && !event.queue()) return "event of a foreign completion queue";
  return fmt::format("event of {}", describe(event.queue()));
}

const rdmaxx::context& completion_channel::context() const noexcept {
  return detail::block_of(*this).parent;
}

result<std::optional<cq_event>> completion_channel::try_get_event() const {
  RDMAXX_TRY(detail::handle_access::check_process(*this, "ibv_get_cq_event"));
  auto& block = detail::block_of(*this);
  for (;;) {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    if (ibv_get_cq_event(live(no_channel), &cq, &cq_context) != 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
      if (errno == EINTR) continue;
      return errno_error("ibv_get_cq_event", errno);
    }
    auto queue = block.queues.find(cq);
    if (queue && *queue) return cq_event(cq, std::move(*queue), {});
    if (queue) {
      block.retain();
      return cq_event(cq, {}, detail::reference(&block));
    }
    // Its last handle has just been destroyed, and ibv_destroy_cq waits in another thread for this
    // acknowledgement.
    ibv_ack_cq_events(cq, 1);
  }
}

result<cq_event> completion_channel::get_event(
    std::optional<std::chrono::milliseconds> timeout) const {
  (void)live(no_channel);
  return wait_for_event(
      fd(), timeout, [this] { return try_get_event(); },
      [this](std::chrono::milliseconds waited) {
        return timed_out_error(
            "completion_channel::get_event", waited,
            fmt::format("a completion event on fd {}", fd()),
            "arm the queue with req_notify(), and poll what had completed before that");
      });
}

std::string describe(const completion_channel& channel) {
  if (!channel) return "completion_channel (empty)";
  return fmt::format("completion_channel fd {} on {}", channel.fd(),
                     channel.context().device_name());
}

}  // namespace RDMAXX_NAMESPACE
