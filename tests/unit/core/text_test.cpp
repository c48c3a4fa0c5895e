#include <rdmaxx/core/text.hpp>

#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <rdmaxx/core/error.hpp>
#include <rdmaxx/core/format.hpp>
#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/log.hpp>

#include "unit/core/expect_names.hpp"

using namespace rdmaxx;

// A name is a literal, a description is composed; nothing else is printable by accident.
static_assert(named<log_level> && !describable<log_level>);
static_assert(describable<error> && !named<error>);
static_assert(!named<int> && !describable<int> && !describable<std::string>);

TEST(text, hexadecimal_has_a_prefix_and_no_padding) {
  EXPECT_EQ(hexadecimal(0), "0x0");
  EXPECT_EQ(hexadecimal(26), "0x1a");
  EXPECT_EQ(hexadecimal(std::numeric_limits<std::uint64_t>::max()), "0xffffffffffffffff");
}

TEST(names, of_error_category) {
  expect_names({error_category::retryable, error_category::peer, error_category::misuse,
                error_category::resources, error_category::gone, error_category::unsupported},
               error_category(200));
  EXPECT_EQ(describe(error_category::unknown), "unknown");
}

TEST(names, of_log_level) {
  expect_names(
      {log_level::debug, log_level::info, log_level::warning, log_level::error, log_level::off},
      log_level(200));
}

TEST(names, of_ownership) { expect_names({ownership::owned, ownership::borrowed}, ownership(200)); }
