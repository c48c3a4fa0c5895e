#pragma once

// sendable_elements: what a stream takes besides bytes: values that lie side by side in memory and
// mean the same to a peer as their bytes do.

#include <concepts>
#include <cstddef>
#include <ranges>
#include <type_traits>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// Strings, vectors, arrays and spans of trivially copyable values. Not of pointers or views, whose
/// bytes mean nothing elsewhere (a list of spans is gathered instead), and not "text", which ends
/// in a zero that nobody means to send.
template <class Range>
concept sendable_elements =
    std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<Range>> &&
    !std::is_pointer_v<std::ranges::range_value_t<Range>> &&
    !std::ranges::view<std::ranges::range_value_t<Range>> &&
    !(std::is_array_v<std::remove_reference_t<Range>> &&
      std::same_as<std::ranges::range_value_t<Range>, char>);

}  // namespace RDMAXX_NAMESPACE::detail
