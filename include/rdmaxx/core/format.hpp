#pragma once

// format: every describable type can be an argument of fmt::format.
//
// Kept apart from the types themselves, so that only code that formats pays for <fmt/format.h>.

#include <string_view>

#include <fmt/format.h>

#include <rdmaxx/core/text.hpp>

template <class T>
  requires rdmaxx::describable<T> || rdmaxx::named<T>
struct fmt::formatter<T, char> : fmt::formatter<std::string_view, char> {
  template <class Context>
  auto format(const T& value, Context& context) const {
    // auto: describe() returns a string for composed texts and a string_view for names.
    const auto text = describe(value);
    return fmt::formatter<std::string_view, char>::format(std::string_view(text), context);
  }
};
