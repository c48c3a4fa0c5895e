#pragma once

// result<T>: a value or an error.
//
// Every function of the library that can fail returns one. Three ways to use it:
//
//   auto pd = context.alloc_pd();                    // look:      if (!pd) report(pd.error());
//   auto pd = context.alloc_pd().value();            // insist:    throws rdmaxx::exception
//   RDMAXX_TRY(auto pd, context.alloc_pd());         // propagate: returns the error to the caller

#include <expected>
#include <type_traits>
#include <utility>

#include <rdmaxx/core/error.hpp>

namespace RDMAXX_NAMESPACE {

namespace detail {
[[noreturn, gnu::cold]] void throw_error(const error& failure);
}

template <class T>
class [[nodiscard]] result : public std::expected<T, error> {
  using base = std::expected<T, error>;

 public:
  using base::base;
  // Implicit: `return some_error;` is how functions fail.
  result(error failure) noexcept : base(std::unexpect, std::move(failure)) {}

  // std::expected's value() throws bad_expected_access, whose message does not help a person.
  T& value() & { return ensure(), **this; }
  const T& value() const& { return ensure(), **this; }
  // By value: with a reference, `for (auto& c : cq.poll(wc).value())` would read a dead temporary.
  T value() && { return ensure(), *std::move(*this); }
  T value() const&& { return ensure(), *std::move(*this); }

 private:
  void ensure() const {
    if (!this->has_value()) [[unlikely]]
      detail::throw_error(this->error());
  }
};

template <class T>
  requires std::is_void_v<T>
class [[nodiscard]] result<T> : public std::expected<T, error> {
  using base = std::expected<T, error>;

 public:
  using base::base;
  result(error failure) noexcept : base(std::unexpect, std::move(failure)) {}

  void value() const {
    if (!this->has_value()) [[unlikely]]
      detail::throw_error(this->error());
  }
};

}  // namespace RDMAXX_NAMESPACE

// RDMAXX_TRY(auto x, expression);   x is the value, or this function returns the error
// RDMAXX_TRY(expression);           only the error matters
//
// Statements, not expressions: GCC 12 cannot compile a statement expression with co_await inside.

#define RDMAXX_DETAIL_CONCAT_(a, b) a##b
#define RDMAXX_DETAIL_CONCAT(a, b) RDMAXX_DETAIL_CONCAT_(a, b)
#define RDMAXX_DETAIL_TRY_VALUE(leave, outcome, declaration, ...) \
  auto&& outcome = (__VA_ARGS__);                                 \
  if (!outcome.has_value()) [[unlikely]]                          \
    leave(std::move(outcome).error());                            \
  declaration = *std::move(outcome)
#define RDMAXX_DETAIL_TRY_VOID(leave, expression) \
  do {                                            \
    auto&& rdmaxx_outcome = (expression);         \
    if (!rdmaxx_outcome.has_value()) [[unlikely]] \
      leave(std::move(rdmaxx_outcome).error());   \
  } while (false)
#define RDMAXX_DETAIL_TRY_SELECT1(leave, first, ...)                                     \
  RDMAXX_DETAIL_TRY_VALUE(leave, RDMAXX_DETAIL_CONCAT(rdmaxx_outcome_, __LINE__), first, \
                          __VA_ARGS__)
#define RDMAXX_DETAIL_TRY_SELECT(leave, first) RDMAXX_DETAIL_TRY_VOID(leave, first)

#define RDMAXX_TRY(first, ...)                                   \
  RDMAXX_DETAIL_CONCAT(RDMAXX_DETAIL_TRY_SELECT, __VA_OPT__(1))( \
      return, first __VA_OPT__(, ) __VA_ARGS__)
#define RDMAXX_CO_TRY(first, ...)                                          \
  RDMAXX_DETAIL_CONCAT(RDMAXX_DETAIL_TRY_SELECT, __VA_OPT__(1))(co_return, \
                                                                first __VA_OPT__(, ) __VA_ARGS__)
