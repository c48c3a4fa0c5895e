#pragma once

// observer: where a variant of the library sees what is posted and what is polled.
//
// The plain library's observer does nothing, and nothing of it is left after inlining. A variant
// (core/variant.hpp) names a header in RDMAXX_OBSERVER, which defines `detail::observer` with the
// same functions. They run in the thread that posts or polls, on the data path: they must not throw
// and should not wait. Many threads may be in them at once.
//
// A post is announced before the device sees it, because it may complete before the call returns;
// if the device refuses it, the announcement is withdrawn.

#include <span>

#include <infiniband/verbs.h>

#include <rdmaxx/core/variant.hpp>
#include <rdmaxx/verbs/work_completion.hpp>

#ifdef RDMAXX_OBSERVER
#include RDMAXX_OBSERVER
#else
namespace RDMAXX_NAMESPACE::detail {

struct observer {
  /// A chain of requests is about to be posted.
  static void posting(const ibv_qp*, const ibv_send_wr*) noexcept {}
  static void posting(const ibv_qp*, const ibv_recv_wr*) noexcept {}
  static void posting(const ibv_srq*, const ibv_recv_wr*) noexcept {}
  /// The device refused this request of the chain and did not see those after it.
  static void refused(const ibv_qp*, const ibv_send_wr*) noexcept {}
  static void refused(const ibv_qp*, const ibv_recv_wr*) noexcept {}
  static void refused(const ibv_srq*, const ibv_recv_wr*) noexcept {}
  /// These completions were polled.
  static void polled(const ibv_cq*, std::span<const work_completion>) noexcept {}
};

}  // namespace RDMAXX_NAMESPACE::detail
#endif
