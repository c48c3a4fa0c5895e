#pragma once

// expect_names: what holds for the names of every public enum.

#include <initializer_list>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <rdmaxx/core/format.hpp>
#include <rdmaxx/core/text.hpp>

/// `all` are the enumerators, save one that is itself called unknown; `stranger` is a value that no
/// enumerator has.
template <class E>
void expect_names(std::initializer_list<E> all, E stranger) {
  std::set<std::string_view> names;
  for (const E one : all) {
    const std::string_view name = describe(one);
    EXPECT_NE(name, "unknown") << "enumerator " << +static_cast<std::underlying_type_t<E>>(one);
    EXPECT_TRUE(names.insert(name).second) << name << " names two enumerators";

    std::ostringstream streamed;
    streamed << one;
    EXPECT_EQ(streamed.str(), name);
    EXPECT_EQ(fmt::format("{}", one), name);
  }
  EXPECT_EQ(describe(stranger), "unknown");
}
