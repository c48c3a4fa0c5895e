#pragma once

// send_list, recv_list: many work requests posted with one call.
//
//   std::array<send_slot, 16> slots;             // yours: on the stack, in a vector, wherever
//   send_list list(slots);
//   for (…) list.push(write_wr{…, .from = mr.gather(block(i))});
//   qp.post(list).value();                       // all, or the error names the first not posted
//   list.clear();
//
// A slot is a C work request with room for one element; a list links them as they are pushed. A
// request with several elements refers to the caller's array, which lives until the list has been
// posted for the last time. push() on a full list throws exception{misuse} like std::vector::at;
// push_unchecked() trusts the caller.
//
// A list that was posted may be posted again, unchanged or with more requests. One thread at a
// time.

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <infiniband/verbs.h>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/native_request.hpp>
#include <rdmaxx/verbs/work_request.hpp>

namespace RDMAXX_NAMESPACE {

/// Room for one request. Only a list can write or read it.
template <class Native>
class work_slot {
 private:
  template <class>
  friend class work_list;

  Native request_;
  ibv_sge element_;  ///< of a request with one, which is kept here until it is posted
};
using send_slot = work_slot<ibv_send_wr>;
using recv_slot = work_slot<ibv_recv_wr>;

static_assert(std::is_trivial_v<send_slot> && std::is_standard_layout_v<send_slot>);
static_assert(std::is_trivial_v<recv_slot> && std::is_standard_layout_v<recv_slot>);

namespace detail {
[[noreturn, gnu::cold]] void throw_list_full(std::size_t capacity);
}

template <class Native>
class work_list {
 public:
  using slot = work_slot<Native>;

  explicit work_list(std::span<slot> slots) noexcept
      : first_(slots.data()), next_(first_), end_(first_ + slots.size()) {}

  /// `max_inline` is what send_flag::inline_if_fits is measured against: queue_pair::max_inline().
  work_list(std::span<slot> slots, std::uint32_t max_inline) noexcept
    requires std::same_as<Native, ibv_send_wr>
      : first_(slots.data()), next_(first_), end_(first_ + slots.size()), max_inline_(max_inline) {}

  template <class Request>
  void push(const Request& request) {
    if (next_ == end_) [[unlikely]]
      detail::throw_list_full(capacity());
    push_unchecked(request);
  }

  void push_unchecked(const recv_wr& request) noexcept
    requires std::same_as<Native, ibv_recv_wr>
  {
    detail::fill(next_->request_, next_->element_, request);
    link();
  }

  template <send_operation Request>
  void push_unchecked(const Request& request) noexcept
    requires std::same_as<Native, ibv_send_wr>
  {
    detail::fill(next_->request_, next_->element_, request, max_inline_);
    link();
  }

  void clear() noexcept { next_ = first_; }
  [[nodiscard]] bool empty() const noexcept { return next_ == first_; }
  [[nodiscard]] bool full() const noexcept { return next_ == end_; }
  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(next_ - first_);
  }
  [[nodiscard]] std::size_t capacity() const noexcept {
    return static_cast<std::size_t>(end_ - first_);
  }

 private:
  friend class queue_pair;
  friend class shared_receive_queue;

  /// Takes the next slot, which has been filled. Each slot points to the next one, so only the last
  /// needs fixing before posting.
  void link() noexcept {
    slot* const taken = next_;
    next_ = taken + 1;
    taken->request_.next = behind();
  }
  /// Where the next request will be: the first member of its slot, which need not exist.
  [[nodiscard]] Native* behind() const noexcept { return reinterpret_cast<Native*>(next_); }
  [[nodiscard]] Native* first() const noexcept { return &first_->request_; }
  /// The C list; the caller made sure that the list is not empty.
  [[nodiscard]] Native* chain() const noexcept {
    next_[-1].request_.next = nullptr;
    return first();
  }
  /// After posting: links the last request to the next slot again.
  void unchain() const noexcept { next_[-1].request_.next = behind(); }
  [[nodiscard]] const slot* slots() const noexcept { return first_; }

  /// The position of a request that a driver has refused; null means the first. Static: a list
  /// whose address is taken does not stay in registers.
  [[nodiscard]] static std::size_t position_of(const slot* slots, const Native* request) noexcept {
    return request == nullptr
               ? 0
               : static_cast<std::size_t>(reinterpret_cast<const slot*>(request) - slots);
  }
  [[nodiscard]] static const Native& request_at(const slot* slots, std::size_t position) noexcept {
    return slots[position].request_;
  }

  slot* first_;
  slot* next_;
  slot* end_;
  std::uint32_t max_inline_ = 0;
};

using send_list = work_list<ibv_send_wr>;
using recv_list = work_list<ibv_recv_wr>;

template <class Native>
[[nodiscard]] std::string describe(const work_list<Native>& list) {
  return std::to_string(list.size()) + " of " + std::to_string(list.capacity()) + " requests";
}

}  // namespace RDMAXX_NAMESPACE
