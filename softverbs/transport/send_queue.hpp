// A ring of send requests in the order in which they were posted, from the oldest that is not
// complete to the newest. Not synchronised: guarded by the queue pair's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <transport/send_work.hpp>

namespace softverbs::transport {

class send_queue {
 public:
  send_queue(unsigned capacity, unsigned most_elements, unsigned most_inline)
      : work_(capacity),
        most_elements_(most_elements),
        most_inline_(most_inline),
        stride_((std::max<std::size_t>(most_elements * sizeof(element), most_inline) + 7) / 8 * 8),
        data_(capacity * stride_) {}

  [[nodiscard]] unsigned most_elements() const noexcept { return most_elements_; }
  [[nodiscard]] unsigned most_inline() const noexcept { return most_inline_; }
  [[nodiscard]] std::uint64_t head() const noexcept { return head_; }
  [[nodiscard]] std::uint64_t tail() const noexcept { return tail_; }
  [[nodiscard]] bool is_empty() const noexcept { return head_ == tail_; }

  [[nodiscard]] send_work& operator[](std::uint64_t index) { return work_[index % work_.size()]; }
  [[nodiscard]] send_work& oldest() { return (*this)[tail_]; }
  /// Elements of a request, or the bytes that were copied into it.
  [[nodiscard]] element* elements(std::uint64_t index) {
    return reinterpret_cast<element*>(inline_data(index));
  }
  [[nodiscard]] std::byte* inline_data(std::uint64_t index) {
    return data_.data() + index % work_.size() * stride_;
  }

  /// The slot behind the newest; not in the queue before publish().
  [[nodiscard]] std::uint64_t next_slot(unsigned ahead = 0) const noexcept { return head_ + ahead; }
  [[nodiscard]] bool has_slot(unsigned ahead = 0) const noexcept {
    return head_ + ahead - tail_ < work_.size();
  }
  void publish(unsigned count = 1) noexcept { head_ += count; }
  void pop() noexcept { ++tail_; }
  void clear() noexcept { tail_ = head_; }

 private:
  std::vector<send_work> work_;
  unsigned most_elements_;
  unsigned most_inline_;
  std::size_t stride_;
  std::vector<std::byte> data_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

}  // namespace softverbs::transport
