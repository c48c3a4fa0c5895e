#pragma once

// work_queue: what work requests can be posted to, so that drivers, scopes and coroutines are
// written once for ordinary queue pairs, for extended ones and for rings that are written directly.
//
//   template <work_queue Queue>
//   result<void> greet(const Queue& queue, gather_element hello) {
//     return queue.post(send_wr{.id = wr_id{1}, .from = hello});
//   }
//
// Code that needs more than every work_queue has can require it: posts_to<Queue, cas_wr>. Lists of
// requests are not part of it, because their slots are those of the C interface.

#include <concepts>

#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/qp_attributes.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>
#include <rdmaxx/verbs/shared_receive_queue.hpp>
#include <rdmaxx/verbs/work_request.hpp>

namespace RDMAXX_NAMESPACE {

/// Requests of this type can be posted to this queue.
template <class Queue, class Request>
concept posts_to = requires(const Queue& queue, const Request& request) {
  { queue.post(request) } -> std::same_as<result<void>>;
};

/// Receives can be posted to it: a queue pair or a shared receive queue.
template <class Queue>
concept receive_queue = posts_to<Queue, recv_wr>;

/// A queue pair, whatever its interface: takes sends, writes, reads and receives.
template <class Queue>
concept work_queue =
    receive_queue<Queue> && posts_to<Queue, send_wr> && posts_to<Queue, write_wr> &&
    posts_to<Queue, read_wr> && requires(const Queue& queue) {
      { queue.number() } -> std::same_as<qpn>;
      { queue.capabilities() } -> std::convertible_to<const qp_capabilities&>;
      { queue.to_error() } -> std::same_as<result<void>>;
    };

static_assert(work_queue<queue_pair> && posts_to<queue_pair, cas_wr> &&
              posts_to<queue_pair, faa_wr> && posts_to<queue_pair, ud_send_wr>);
static_assert(receive_queue<shared_receive_queue> && !work_queue<shared_receive_queue>);

}  // namespace RDMAXX_NAMESPACE
