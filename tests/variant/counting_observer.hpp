// An observer that counts: what was posted and taken, and what has completed.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include <infiniband/verbs.h>

#include <rdmaxx/core/variant.hpp>
#include <rdmaxx/verbs/work_completion.hpp>

namespace RDMAXX_NAMESPACE::detail {

struct observer {
  static inline std::atomic<std::size_t> sends = 0;
  static inline std::atomic<std::size_t> receives = 0;
  static inline std::atomic<std::size_t> completions = 0;

  static void posting(const ibv_qp*, const ibv_send_wr* chain) noexcept { sends += length(chain); }
  static void posting(const ibv_qp*, const ibv_recv_wr* chain) noexcept {
    receives += length(chain);
  }
  static void posting(const ibv_srq*, const ibv_recv_wr* chain) noexcept {
    receives += length(chain);
  }
  static void refused(const ibv_qp*, const ibv_send_wr* chain) noexcept { sends -= length(chain); }
  static void refused(const ibv_qp*, const ibv_recv_wr* chain) noexcept {
    receives -= length(chain);
  }
  static void refused(const ibv_srq*, const ibv_recv_wr* chain) noexcept {
    receives -= length(chain);
  }
  static void polled(const ibv_cq*, std::span<const work_completion> found) noexcept {
    completions += found.size();
  }

 private:
  template <class Native>
  static std::size_t length(const Native* chain) noexcept {
    std::size_t count = 0;
    for (; chain != nullptr; chain = chain->next) ++count;
    return count;
  }
};

}  // namespace RDMAXX_NAMESPACE::detail
