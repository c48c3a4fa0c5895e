// A ring of receive requests: the receive queue of a queue pair, or the content of a shared one.
// Not synchronised: guarded by the owner's lock.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <infiniband/verbs.h>

namespace softverbs::engine {

/// One receive request, taken out of its queue.
struct receive_work {
  std::uint64_t wr_id = 0;
  std::vector<ibv_sge> into;

  [[nodiscard]] std::uint64_t capacity() const {
    std::uint64_t bytes = 0;
    for (const auto& each : into) bytes += each.length;
    return bytes;
  }
};

class receive_queue {
 public:
  receive_queue(unsigned capacity, unsigned most_sge)
      : slots_(capacity), elements_(std::size_t{capacity} * most_sge), most_sge_(most_sge) {}

  [[nodiscard]] std::size_t size() const noexcept { return head_ - tail_; }
  [[nodiscard]] bool is_empty() const noexcept { return head_ == tail_; }
  [[nodiscard]] unsigned capacity() const noexcept { return static_cast<unsigned>(slots_.size()); }

  /// 0, ENOMEM if the queue is full, EINVAL if the request has too many elements.
  int push(const ibv_recv_wr& request) {
    if (size() == slots_.size()) return ENOMEM;
    if (request.num_sge < 0 || static_cast<unsigned>(request.num_sge) > most_sge_) return EINVAL;
    const auto index = head_ % slots_.size();
    slots_[index] = {.wr_id = request.wr_id, .elements = static_cast<unsigned>(request.num_sge)};
    for (unsigned i = 0; i < slots_[index].elements; ++i) {
      elements_[index * most_sge_ + i] = request.sg_list[i];
    }
    ++head_;
    return 0;
  }

  /// Moves the oldest request into `out`, whose memory is used again.
  void pop(receive_work& out) {
    const auto index = tail_++ % slots_.size();
    out.wr_id = slots_[index].wr_id;
    const auto first = elements_.begin() + static_cast<std::ptrdiff_t>(index * most_sge_);
    out.into.assign(first, first + slots_[index].elements);
  }

  void clear() noexcept { tail_ = head_; }

  /// Keeps what is queued; EINVAL if that does not fit.
  int resize(unsigned capacity) {
    if (size() > capacity) return EINVAL;
    receive_queue larger(capacity, most_sge_);
    for (; tail_ != head_; ++tail_) {
      const auto from = tail_ % slots_.size();
      const auto to = larger.head_++;
      larger.slots_[to] = slots_[from];
      for (unsigned i = 0; i < most_sge_; ++i) {
        larger.elements_[to * most_sge_ + i] = elements_[from * most_sge_ + i];
      }
    }
    *this = std::move(larger);
    return 0;
  }

 private:
  struct slot {
    std::uint64_t wr_id = 0;
    unsigned elements = 0;
  };
  std::vector<slot> slots_;
  std::vector<ibv_sge> elements_;
  unsigned most_sge_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace softverbs::engine
