// RDMAXX_CO_TRY, and the forms of co_await that GCC 12 compiles correctly. What an awaitable takes
// is trivially destructible or has a constructor: a braced aggregate with an owning member inside a
// co_await expression is destroyed twice there. Under the address sanitizer this file proves that
// the permitted forms are sound.

#include <array>
#include <cerrno>
#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/work_request.hpp>

using namespace rdmaxx;

namespace {

/// The smallest coroutine type: runs when awaited or when get() is called.
template <class T>
class [[nodiscard]] eager_task {
 public:
  struct promise_type {
    std::optional<T> outcome{};

    eager_task get_return_object() {
      return eager_task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    template <class Value>
    void return_value(Value&& value) {
      outcome.emplace(std::forward<Value>(value));
    }
    void unhandled_exception() { std::terminate(); }
  };

  eager_task(eager_task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  eager_task& operator=(eager_task&&) = delete;
  eager_task(const eager_task&) = delete;
  eager_task& operator=(const eager_task&) = delete;
  ~eager_task() {
    if (coroutine_) coroutine_.destroy();
  }

  [[nodiscard]] T get() { return std::move(coroutine_.promise().outcome).value(); }

  [[nodiscard]] bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  [[nodiscard]] T await_resume() { return get(); }

 private:
  explicit eager_task(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

/// Owns memory and has a constructor: the permitted kind of argument.
class parcel {
 public:
  explicit parcel(std::string content)
      : content_(std::make_unique<std::string>(std::move(content))) {}

  [[nodiscard]] const std::string& content() const { return *content_; }

 private:
  std::unique_ptr<std::string> content_;
};

eager_task<result<parcel>> carry(parcel load, bool arrives) {
  if (!arrives) co_return errno_error("carry", ETIMEDOUT, load.content());
  co_return load;
}

eager_task<result<void>> announce(bool heard) {
  if (!heard) co_return errno_error("announce", ECONNRESET);
  co_return result<void>();
}

// Long enough that a double destruction is not hidden by the small string optimisation.
const std::string cargo = "a content that does not fit into the string object itself";

}  // namespace

TEST(result_co_try, declares_the_value) {
  const auto route = [](bool arrives) -> eager_task<result<std::string>> {
    RDMAXX_CO_TRY(auto delivered, co_await carry(parcel(cargo), arrives));
    co_return delivered.content();
  };

  EXPECT_EQ(route(true).get().value(), cargo);
  EXPECT_EQ(route(false).get().error(), std::errc::timed_out);
  EXPECT_EQ(route(false).get().error().problem(), cargo);
}

TEST(result_co_try, void_form_propagates) {
  const auto route = [](bool heard) -> eager_task<result<int>> {
    RDMAXX_CO_TRY(co_await announce(heard));
    co_return 1;
  };

  EXPECT_EQ(route(true).get().value(), 1);
  EXPECT_EQ(route(false).get().error(), std::errc::connection_reset);
}

TEST(result_co_try, works_inside_loops_and_branches) {
  const auto route = [](int failing) -> eager_task<result<int>> {
    int delivered = 0;
    for (int i = 0; i < 100; ++i) {
      if (i % 2 == 0) {
        RDMAXX_CO_TRY(co_await announce(i != failing));
      } else {
        RDMAXX_CO_TRY(const auto load, co_await carry(parcel(cargo), i != failing));
        delivered += load.content() == cargo ? 1 : 0;
      }
    }
    co_return delivered;
  };

  EXPECT_EQ(route(-1).get().value(), 50);
  EXPECT_EQ(route(40).get().error().operation(), "announce");
  EXPECT_EQ(route(41).get().error().operation(), "carry");
}

TEST(result_co_try, takes_results_that_were_not_awaited) {
  const auto route = [](bool good) -> eager_task<result<int>> {
    const auto plain = [&]() -> result<int> {
      if (!good) return errno_error("plain", EIO);
      return 3;
    };
    RDMAXX_CO_TRY(const int number, plain());
    co_return number;
  };

  EXPECT_EQ(route(true).get().value(), 3);
  EXPECT_EQ(route(false).get().error(), std::errc::io_error);
}

TEST(result_co_try, owning_arguments_with_a_constructor_are_destroyed_once) {
  const auto witness = std::make_shared<int>(0);
  class owner {
   public:
    explicit owner(std::shared_ptr<int> shared) : shared_(std::move(shared)) {}
    [[nodiscard]] long count() const { return shared_.use_count(); }

   private:
    std::shared_ptr<int> shared_;
  };
  const auto hold = [](owner held) -> eager_task<result<long>> { co_return held.count(); };
  const auto route = [&]() -> eager_task<result<long>> {
    RDMAXX_CO_TRY(const long count, co_await hold(owner(witness)));
    co_return count;
  };

  EXPECT_GE(route().get().value(), 2);

  EXPECT_EQ(witness.use_count(), 1);
}

// Requests are braced aggregates, so they must own nothing to be allowed inside a co_await
// expression.
static_assert(std::is_trivially_destructible_v<send_wr> &&
              std::is_trivially_destructible_v<ud_send_wr> &&
              std::is_trivially_destructible_v<write_wr> &&
              std::is_trivially_destructible_v<read_wr> &&
              std::is_trivially_destructible_v<cas_wr> &&
              std::is_trivially_destructible_v<faa_wr> &&
              std::is_trivially_destructible_v<recv_wr>);

TEST(result_co_try, requests_stand_inside_co_await) {
  const std::string text = "some bytes";
  const auto post = [](const write_wr& request) -> eager_task<result<std::size_t>> {
    co_return request.from.bytes();
  };
  const auto route = [&]() -> eager_task<result<std::size_t>> {
    const auto element = gather_element::unregistered(std::as_bytes(std::span(text)));
    const std::array list{element, element};
    const remote_address target{.address = 64, .key = rkey{5}};
    RDMAXX_CO_TRY(const auto one, co_await post(write_wr{.from = element, .to = target}));
    RDMAXX_CO_TRY(const auto two, co_await post(write_wr{.from = list, .to = target}));
    co_return one + two;
  };

  EXPECT_EQ(route().get().value(), 3 * text.size());
}
