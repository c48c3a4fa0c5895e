#include <rdmaxx/core/result.hpp>

#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace rdmaxx;
using testing::ElementsAre;

namespace {

error sample_error() { return misuse_error("frobnicate", "the knob is at 12", "turn it to 11"); }

result<int> half(int number) {
  if (number % 2 != 0) return misuse_error("half", std::to_string(number) + " is odd");
  return number / 2;
}

result<void> must_be_even(int number) {
  if (number % 2 != 0) return misuse_error("must_be_even", std::to_string(number) + " is odd");
  return {};
}

template <class First, class Second>
result<std::pair<First, Second>> pair_of(First first, Second second) {
  if (first < First{}) return misuse_error("pair_of", "the first is negative");
  return std::pair(first, second);
}

}  // namespace

// ── value()
// ───────────────────────────────────────────────────────────────────────────────────────────

// A temporary result gives a value: a reference would dangle in `for (auto& x : f().value())`.
static_assert(std::is_same_v<decltype(std::declval<result<int>&>().value()), int&>);
static_assert(std::is_same_v<decltype(std::declval<const result<int>&>().value()), const int&>);
static_assert(std::is_same_v<decltype(std::declval<result<int>>().value()), int>);
static_assert(std::is_same_v<decltype(std::declval<const result<int>>().value()), int>);
static_assert(std::is_void_v<decltype(std::declval<result<void>>().value())>);

static_assert(std::is_convertible_v<error, result<int>>);
static_assert(std::is_convertible_v<int, result<int>>);
static_assert(std::is_nothrow_move_constructible_v<result<std::unique_ptr<int>>>);
static_assert(!std::is_copy_constructible_v<result<std::unique_ptr<int>>>);
static_assert(sizeof(result<void>) <= 2 * sizeof(void*));

TEST(result, value_gives_the_value_in_all_four_qualifications) {
  result<std::string> present = std::string("here");
  const result<std::string> constant = std::string("there");

  present.value() += "!";

  EXPECT_EQ(present.value(), "here!");
  EXPECT_EQ(constant.value(), "there");
  EXPECT_EQ(std::move(constant).value(), "there");
  EXPECT_EQ(std::move(present).value(), "here!");
}

TEST(result, value_of_a_failure_throws_the_whole_message_in_all_four_qualifications) {
  result<int> failed = sample_error();
  const result<int> constant = sample_error();
  const auto thrown_by = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const exception& failure) {
      return failure.what();
    }
    return "nothing was thrown";
  };

  EXPECT_EQ(thrown_by([&] { static_cast<void>(failed.value()); }), sample_error().message());
  EXPECT_EQ(thrown_by([&] { static_cast<void>(constant.value()); }), sample_error().message());
  EXPECT_EQ(thrown_by([&] { static_cast<void>(std::move(constant).value()); }),
            sample_error().message());
  EXPECT_EQ(thrown_by([&] { static_cast<void>(std::move(failed).value()); }),
            sample_error().message());
}

TEST(result, void_value_throws_only_for_a_failure) {
  EXPECT_NO_THROW(result<void>().value());
  EXPECT_THROW(result<void>(sample_error()).value(), exception);
}

TEST(result, what_it_throws_is_a_system_error_that_still_knows_the_error) {
  try {
    result<void>(sample_error()).value();
    FAIL() << "nothing was thrown";
  } catch (const std::system_error& thrown) {
    EXPECT_EQ(thrown.code(), std::errc::invalid_argument);
    const auto* const ours = dynamic_cast<const exception*>(&thrown);
    ASSERT_NE(ours, nullptr);
    EXPECT_EQ(ours->error().hint(), "turn it to 11");
  }
}

TEST(result, holds_values_that_can_only_be_moved) {
  result<std::unique_ptr<int>> boxed = std::make_unique<int>(7);

  const std::unique_ptr<int> taken = std::move(boxed).value();

  EXPECT_EQ(*taken, 7);
}

TEST(result, a_temporary_can_be_iterated) {
  const auto make = [] { return result<std::vector<int>>(std::vector{1, 2, 3}); };
  std::vector<int> seen;

  for (const int number : make().value()) seen.push_back(number);

  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
}

// ── RDMAXX_TRY
// ────────────────────────────────────────────────────────────────────────────────────────
//
// Two of the value form cannot stand on one source line: their hidden variables are named after it.
// The void form splits at commas outside parentheses: RDMAXX_TRY((f<a, b>())).

TEST(result_try, declares_the_value) {
  const auto quarter = [](int number) -> result<int> {
    RDMAXX_TRY(const int first, half(number));
    RDMAXX_TRY(const int second, half(first));
    return second;
  };

  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).error().problem(), "3 is odd");
  EXPECT_EQ(quarter(5).error().problem(), "5 is odd");
}

TEST(result_try, assigns_to_what_exists) {
  int target = 0;
  const auto assign = [&](int number) -> result<void> {
    RDMAXX_TRY(target, half(number));
    return {};
  };

  EXPECT_TRUE(assign(8));
  EXPECT_EQ(target, 4);
  EXPECT_FALSE(assign(9));
  EXPECT_EQ(target, 4) << "a failure leaves the target alone";
}

TEST(result_try, void_form_is_one_statement) {
  const auto check_if = [](bool wanted, int number) -> result<std::string> {
    if (wanted)
      RDMAXX_TRY(must_be_even(number));
    else
      return std::string("unchecked");
    return std::string("checked");
  };

  EXPECT_EQ(check_if(true, 2).value(), "checked");
  EXPECT_EQ(check_if(false, 3).value(), "unchecked");
  EXPECT_EQ(check_if(true, 3).error().operation(), "must_be_even");
}

TEST(result_try, void_form_discards_a_value) {
  const auto only_check = [](int number) -> result<void> {
    RDMAXX_TRY(half(number));
    return {};
  };

  EXPECT_TRUE(only_check(2));
  EXPECT_FALSE(only_check(3));
}

TEST(result_try, takes_expressions_with_commas) {
  const auto sum = [](int first, int second) -> result<int> {
    RDMAXX_TRY(const auto both, pair_of<int, int>(first, second));
    RDMAXX_TRY((pair_of<int, int>(first, second)));
    return both.first + both.second;
  };

  EXPECT_EQ(sum(1, 2).value(), 3);
  EXPECT_EQ(sum(-1, 2).error().operation(), "pair_of");
}

TEST(result_try, leaves_only_the_innermost_function) {
  const auto outer = [](int number) -> result<int> {
    const auto inner = [&]() -> result<int> {
      RDMAXX_TRY(const int halved, half(number));
      return halved;
    };
    const auto attempt = inner();
    return attempt ? *attempt : -1;
  };

  EXPECT_EQ(outer(4).value(), 2);
  EXPECT_EQ(outer(5).value(), -1);
}

TEST(result_try, moves_the_value_out) {
  const auto unwrap = [](int number) -> result<int> {
    const auto boxed = [&]() -> result<std::unique_ptr<int>> {
      return std::make_unique<int>(number);
    };
    RDMAXX_TRY(const auto box, boxed());
    return *box;
  };

  EXPECT_EQ(unwrap(5).value(), 5);
}

TEST(result_try, hands_on_the_error_without_copying_its_detail) {
  const error original = sample_error();
  const auto pass = [&]() -> result<int> {
    RDMAXX_TRY(const int never, result<int>(original));
    return never;
  };

  const auto passed = pass();

  EXPECT_EQ(passed.error().hint().data(), original.hint().data());
}

TEST(result_try, converts_between_results_of_different_types) {
  const auto text_of = [](int number) -> result<std::string> {
    RDMAXX_TRY(const int halved, half(number));
    return std::to_string(halved);
  };

  EXPECT_EQ(text_of(4).value(), "2");
  EXPECT_EQ(text_of(3).error().operation(), "half");
}
