#pragma once

// sendable_elements: what a stream accepts besides bytes: contiguous values that the peer can
// rebuild from their bytes.

#include <concepts>
#include <cstddef>
#include <ranges>
#include <type_traits>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// Strings, vectors, arrays and spans of trivially copyable values. Not pointers or views, whose
/// bytes mean nothing elsewhere (a list of spans is gathered instead), and not "text", which ends
/// in a zero that is not meant to be sent.
template <class Range>
concept sendable_elements =
    std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<Range>> &&
    !std::is_pointer_v<std::ranges::range_value_t<Range>> &&
    !std::ranges::view<std::ranges::range_value_t<Range>> &&
    !(std::is_array_v<std::remove_reference_t<Range>> &&
      std::same_as<std::ranges::range_value_t<Range>, char>);

}  // namespace RDMAXX_NAMESPACE::detail
