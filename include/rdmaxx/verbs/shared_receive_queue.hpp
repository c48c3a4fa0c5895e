#pragma once

// shared_receive_queue: receives that several queue pairs share, in the order in which they need
// them.
//
//   auto srq = pd.create_srq({.capacity = 256}).value();
//   auto qp = pd.create_qp({.send_cq = cq, .recv_cq = cq, .srq = srq}).value();
//   srq.post(recv_wr{.id = wr_id{1}, .into = mr.scatter(buffer)}).value();
//   srq.set_limit(32).value();      // one event srq_limit_reached when fewer are left
//
// A completion names the queue pair that used the receive.
//
// Lifetime: copies share one queue; it keeps its domain alive, and queue pairs keep it alive. When
// a queue pair fails, receives that it has not taken are not flushed: they stay for the others
// until the queue is destroyed. Threads: all members, any thread.

#include <cstdint>
#include <string>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/protection_domain.hpp>
#include <rdmaxx/verbs/work_list.hpp>
#include <rdmaxx/verbs/work_request.hpp>

namespace RDMAXX_NAMESPACE {

struct shared_receive_queue_config {
  std::uint32_t capacity = 64;  ///< receives that can wait
  std::uint32_t max_sge = 1;    ///< elements of each
};
[[nodiscard]] std::string describe(const shared_receive_queue_config& config);

class shared_receive_queue : public shared_handle<ibv_srq> {
 public:
  shared_receive_queue() noexcept = default;

  /// Takes over a queue that was created elsewhere from `pd`.
  [[nodiscard]] static result<shared_receive_queue> adopt(ibv_srq* native,
                                                          const protection_domain& pd,
                                                          adoption how = {});

  [[nodiscard]] const protection_domain& pd() const noexcept;
  /// What the device granted, at least what was requested; 0 for an adopted queue, for which the
  /// device does not report it.
  [[nodiscard]] std::uint32_t capacity() const noexcept;

  [[nodiscard]] result<void> post(const recv_wr& request) const;
  /// Posts all; otherwise the error has the position of the first that was not posted.
  [[nodiscard]] result<void> post(const recv_list& list) const;

  /// Raises srq_limit_reached once, when fewer receives than this are left.
  [[nodiscard]] result<void> set_limit(std::uint32_t receives) const;
  /// 0 if it is not set, or the event has been raised.
  [[nodiscard]] result<std::uint32_t> limit() const;

 private:
  friend struct detail::handle_access;
  using shared_handle::shared_handle;
};
[[nodiscard]] std::string describe(const shared_receive_queue& srq);

}  // namespace RDMAXX_NAMESPACE
