#pragma once

// text: describing values in words.
//
// A type is *describable* when an overload of describe() in namespace rdmaxx turns it into text.
// Every public enum, flag set, attribute type and live handle is. operator<< (here) and the fmt
// formatter (core/format.hpp) use that one function, so all three always agree.

#include <chrono>
#include <concepts>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

/// "0x1a" for 26.
[[nodiscard]] std::string hexadecimal(std::uint64_t value);
/// "2 s", "1500 ms".
[[nodiscard]] std::string duration_text(std::chrono::milliseconds duration);

template <class T>
concept describable = requires(const T& value) {
  { describe(value) } -> std::convertible_to<std::string>;
};

/// string_view does not convert to string implicitly, so enums, whose names are literals, need
/// their own case.
template <class T>
concept named = requires(const T& value) {
  { describe(value) } -> std::same_as<std::string_view>;
};

template <class T>
  requires describable<T> || named<T>
std::ostream& operator<<(std::ostream& out, const T& value) {
  return out << describe(value);
}

}  // namespace RDMAXX_NAMESPACE
