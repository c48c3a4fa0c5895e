// Shared receive queues of verbs, and the XRC domains that they can belong to.
//
// Owner: the user. Any thread may call any function.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include <base/lock_order.hpp>
#include <engine/completion_queue.hpp>
#include <infiniband/verbs.h>
#include <transport/shared_receive_queue.hpp>

namespace softverbs::engine {

class device_context;

/// A domain in which XRC target queue pairs find shared receive queues by number. Private to the
/// process: opening it through a file gives the domain that this process has for the file.
struct xrc_domain : ibv_xrcd {
  struct identity {
    std::uint64_t device = 0;  ///< of the file
    std::uint64_t file = 0;    ///< its inode; without a file, a number of its own
    friend bool operator==(const identity&, const identity&) = default;
  };
  identity who;
  std::atomic<unsigned> users = 0;
};

class shared_receive_queue : public ibv_srq {
 public:
  shared_receive_queue(device_context& device, ibv_pd* protection, const ibv_srq_attr& wanted,
                       void* user_context)
      : ibv_srq{}, owner(device), queue_(wanted.max_wr, wanted.max_sge) {
    pd = protection;
    srq_context = user_context;
  }

  [[nodiscard]] static shared_receive_queue& of(ibv_srq* srq) {
    return *static_cast<shared_receive_queue*>(srq);
  }

  /// 0 or an errno.
  [[nodiscard]] int post(const ibv_recv_wr& request);
  /// False if it is empty. Raises the limit event when the count falls below the limit.
  [[nodiscard]] bool take(transport::receive_work& out);
  [[nodiscard]] int modify(const ibv_srq_attr& wanted, int mask);
  [[nodiscard]] ibv_srq_attr query() const;

  device_context& owner;
  event_account asynchronous_events;
  std::atomic<unsigned> users = 0;  ///< queue pairs that take from it

  // XRC alone: the number, the domain, and where its completions go.
  std::uint32_t number = 0;
  xrc_domain* domain = nullptr;
  completion_queue* cq = nullptr;

 private:
  transport::shared_receive_queue queue_;
};

/// The SRQ of that number in the domain of this process; null if there is none. While `lock` is
/// held it is not destroyed.
class srq_directory {
 public:
  [[nodiscard]] static srq_directory& of_process();
  void add(shared_receive_queue& srq);
  void remove(shared_receive_queue& srq);
  /// Calls `use(srq)` if the domain has the number; false if it has not.
  template <class Use>
  bool with(const xrc_domain* domain, std::uint32_t number, Use use) {
    const std::lock_guard lock(mutex_);
    auto* const found = find(domain, number);
    if (found == nullptr) return false;
    use(*found);
    return true;
  }

 private:
  [[nodiscard]] shared_receive_queue* find(const xrc_domain* domain, std::uint32_t number);
  ranked_mutex<lock_rank::srq_directory> mutex_;
  std::vector<shared_receive_queue*> queues_;  ///< number n is at n - 1
};

}  // namespace softverbs::engine
