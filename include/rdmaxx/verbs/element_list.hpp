#pragma once

// gather_list, scatter_list: where the bytes of one work request come from, or go to.
//
//   qp.post(send_wr{.from = mr.gather()}).value();           // one element: no braces, no array
//   const std::array parts{header.gather(), body.gather()};  // several: in a named array
//   qp.post(send_wr{.from = parts}).value();
//
// Lifetime: a list holds one element by value, so a request with one may be named, stored and
// copied. It only refers to several: the array, vector or span belongs to the caller and must live
// until post() has returned or, in a send_list or recv_list, until the list has been posted for the
// last time. Temporaries (`.from = std::array{a, b}`, `.from = make_vector()`, braces around
// several) would be destroyed by then, and do not compile.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>

#include <infiniband/verbs.h>

#include <rdmaxx/verbs/scatter_gather.hpp>

namespace RDMAXX_NAMESPACE {

template <class Element>
class element_list;

namespace detail {

/// Several contiguous elements, whoever owns them.
template <class Range, class Element>
concept elements_in_memory =
    std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::same_as<std::ranges::range_value_t<Range>, Element> &&
    !std::same_as<std::remove_cvref_t<Range>, element_list<Element>>;

}  // namespace detail

template <class Element>
class element_list {
 public:
  /// No elements: no bytes.
  constexpr element_list() noexcept = default;
  constexpr element_list(Element one) noexcept : one_(one), count_(1) {}  // NOLINT(*-explicit-*)

  /// A named range, or a span of it.
  template <detail::elements_in_memory<Element> Range>
    requires std::ranges::borrowed_range<Range>
  constexpr element_list(Range&& elements) noexcept  // NOLINT(*-explicit-*,*-std-forward)
      : several_(std::ranges::data(elements)),
        count_(static_cast<std::uint32_t>(std::ranges::size(elements))) {}

  /// A temporary is destroyed before the request is posted: give it a name.
  template <detail::elements_in_memory<Element> Range>
    requires(!std::ranges::borrowed_range<Range>)
  element_list(Range&& temporary) = delete;  // NOLINT(*-explicit-*)

  [[nodiscard]] constexpr std::size_t size() const noexcept { return count_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return count_ == 0; }
  /// Of all elements together.
  [[nodiscard]] constexpr std::uint64_t bytes() const noexcept {
    if (held_by_value()) return one_.size();
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < count_; ++i) total += several_[i].size();
    return total;
  }
  [[nodiscard]] constexpr const Element& operator[](std::size_t position) const noexcept {
    return held_by_value() ? one_ : several_[position];
  }

  /// The C list of size() elements. An element held by value is copied to `place`, so that the
  /// address of the request does not escape: the compiler then folds the request away, and a post
  /// costs as much as in C.
  [[nodiscard]] ibv_sge* native(ibv_sge& place) const noexcept {
    if (!held_by_value()) return detail::native_list(std::span<const Element>(several_, count_));
    place.addr = one_.address();
    place.length = one_.size();
    place.lkey = one_.key().value();
    return &place;
  }

 private:
  [[nodiscard]] constexpr bool held_by_value() const noexcept {
    return several_ == nullptr && count_ != 0;
  }

  Element one_{};
  const Element* several_ = nullptr;
  std::uint32_t count_ = 0;
};

using gather_list = element_list<gather_element>;
using scatter_list = element_list<scatter_element>;

static_assert(std::is_trivially_copyable_v<gather_list> &&
              std::is_trivially_destructible_v<gather_list>);

/// "2 elements, 24 bytes". A template, so that arrays of elements are not described as lists.
template <class Element>
[[nodiscard]] std::string describe(const element_list<Element>& list);
extern template std::string describe(const gather_list& list);
extern template std::string describe(const scatter_list& list);

}  // namespace RDMAXX_NAMESPACE
