// A ring of receive requests: the receive queue of a queue pair, or the content of a shared one.
// Not synchronised: guarded by the owner's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <transport/memory_domain.hpp>
#include <transport/send_work.hpp>

namespace softverbs::transport {

/// One receive request, taken out of its queue.
struct receive_work {
  std::uint64_t id = 0;  ///< the user's: wr_id
  std::vector<element> into;
  memory_domain domain{};        ///< that its memory has to belong to
  void* completes_to = nullptr;  ///< for the front end, if it has to know where

  [[nodiscard]] std::uint64_t capacity() const {
    std::uint64_t bytes = 0;
    for (const auto& each : into) bytes += each.length;
    return bytes;
  }
};

class receive_queue {
 public:
  receive_queue(unsigned capacity, unsigned most_elements)
      : slots_(capacity),
        elements_(std::size_t{capacity} * most_elements),
        most_elements_(most_elements) {}

  [[nodiscard]] std::size_t size() const noexcept { return head_ - tail_; }
  [[nodiscard]] bool is_empty() const noexcept { return head_ == tail_; }
  [[nodiscard]] bool is_full() const noexcept { return size() == slots_.size(); }
  [[nodiscard]] unsigned capacity() const noexcept { return static_cast<unsigned>(slots_.size()); }
  [[nodiscard]] unsigned most_elements() const noexcept { return most_elements_; }

  /// A new request at the end of the queue, which is not full, with room for its `count` elements,
  /// no more than most_elements().
  [[nodiscard]] std::span<element> push(std::uint64_t id, unsigned count) {
    const auto index = head_++ % slots_.size();
    slots_[index] = {.id = id, .elements = count};
    return std::span(elements_).subspan(index * most_elements_, count);
  }

  /// Moves the oldest request into `out`, whose memory is used again.
  void pop(receive_work& out) {
    const auto index = tail_++ % slots_.size();
    out.id = slots_[index].id;
    const auto first = elements_.begin() + static_cast<std::ptrdiff_t>(index * most_elements_);
    out.into.assign(first, first + slots_[index].elements);
  }

  void clear() noexcept { tail_ = head_; }

  /// Keeps what is queued; false if that does not fit.
  [[nodiscard]] bool resize(unsigned capacity) {
    if (size() > capacity) return false;
    receive_queue larger(capacity, most_elements_);
    for (; tail_ != head_; ++tail_) {
      const auto from = tail_ % slots_.size();
      const auto to = larger.head_++;
      larger.slots_[to] = slots_[from];
      for (unsigned i = 0; i < most_elements_; ++i) {
        larger.elements_[to * most_elements_ + i] = elements_[from * most_elements_ + i];
      }
    }
    *this = std::move(larger);
    return true;
  }

 private:
  struct slot {
    std::uint64_t id = 0;
    unsigned elements = 0;
  };
  std::vector<slot> slots_;
  std::vector<element> elements_;
  unsigned most_elements_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace softverbs::transport
