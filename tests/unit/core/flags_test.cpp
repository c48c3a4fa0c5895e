#include <rdmaxx/core/flags.hpp>

#include <cstdint>
#include <sstream>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <rdmaxx/core/format.hpp>

namespace RDMAXX_NAMESPACE {

// As small as an enum can be, so that integer promotion has a chance to spoil something.
enum class topping : std::uint8_t { cheese = 1, basil = 2, olives = 0x80 };
template <>
inline constexpr bool is_flag_enum<topping> = true;
static std::string_view describe(topping one) noexcept {
  switch (one) {
    case topping::cheese:
      return "cheese";
    case topping::basil:
      return "basil";
    case topping::olives:
      return "olives";
  }
  return "unknown";
}

}  // namespace RDMAXX_NAMESPACE

using namespace rdmaxx;

namespace {

enum class not_flags : std::uint8_t { one = 1, two = 2 };

template <class E>
concept has_bitwise_or = requires(E a, E b) { a | b; };

}  // namespace

using toppings = flags<topping>;

static_assert(has_bitwise_or<topping> && !has_bitwise_or<not_flags>);
static_assert(!std::is_convertible_v<std::uint8_t, toppings> &&
              !std::is_convertible_v<toppings, std::uint8_t>);
static_assert(!std::is_convertible_v<toppings, bool>);
static_assert(sizeof(toppings) == sizeof(topping) && std::is_trivially_copyable_v<toppings>);
// All of it works in constant expressions.
static_assert((topping::cheese | topping::basil).bits() == 3);

TEST(flags, a_new_set_is_empty) {
  const toppings none;

  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.count(), 0);
  EXPECT_EQ(none.bits(), 0);
}

TEST(flags, unites_intersects_and_subtracts) {
  const toppings some = topping::cheese | topping::olives;

  EXPECT_EQ(some | topping::basil, (toppings{topping::cheese, topping::basil, topping::olives}));
  EXPECT_EQ(some & toppings(topping::olives), toppings(topping::olives));
  EXPECT_EQ(some - topping::olives, toppings(topping::cheese));
  EXPECT_EQ(some - topping::basil, some);
  EXPECT_EQ((some & topping::basil), toppings());
}

TEST(flags, compound_operators_change_in_place) {
  toppings set = topping::cheese;

  set |= topping::olives;
  EXPECT_EQ(set.bits(), 0x81);
  set -= topping::cheese;
  EXPECT_EQ(set.bits(), 0x80);
  set &= topping::basil;
  EXPECT_TRUE(set.empty());
}

TEST(flags, has_asks_for_all_and_has_any_for_one) {
  const toppings some = topping::cheese | topping::olives;

  EXPECT_TRUE(some.has(topping::cheese));
  EXPECT_FALSE(some.has(topping::basil));
  EXPECT_TRUE(some.has(topping::cheese | topping::olives));
  EXPECT_FALSE(some.has(topping::cheese | topping::basil));
  EXPECT_TRUE(some.has_any(topping::cheese | topping::basil));
  EXPECT_FALSE(some.has_any(topping::basil));
  EXPECT_TRUE(some.has({})) << "every set has the empty one";
  EXPECT_FALSE(some.has_any({}));
}

TEST(flags, from_bits_keeps_bits_without_a_name) {
  const auto set = toppings::from_bits(0x85);

  EXPECT_EQ(set.bits(), 0x85);
  EXPECT_EQ(set.count(), 3);
  EXPECT_TRUE(set.has(topping::cheese | topping::olives));
}

TEST(flags, describes_itself_in_the_order_of_the_bits) {
  EXPECT_EQ(describe(toppings()), "none");
  EXPECT_EQ(describe(toppings(topping::basil)), "basil");
  EXPECT_EQ(describe(toppings{topping::olives, topping::cheese}), "cheese|olives");
}

TEST(flags, describes_unnamed_bits_in_hexadecimal) {
  EXPECT_EQ(describe(toppings::from_bits(0x44)), "0x4|0x40");
  EXPECT_EQ(describe(toppings::from_bits(0x85)), "cheese|0x4|olives");
}

TEST(flags, fmt_and_stream_agree_with_describe) {
  const toppings some = topping::cheese | topping::basil;
  std::ostringstream streamed;

  streamed << some;

  EXPECT_EQ(streamed.str(), describe(some));
  EXPECT_EQ(fmt::format("{}", some), describe(some));
  EXPECT_EQ(fmt::format("{:>14}", some), "  cheese|basil");
}
