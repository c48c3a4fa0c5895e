// name_lookup: a resolver that hangs costs the caller no more than its time, and the process no
// more than a few threads.

#include "cm/name_lookup.hpp"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/core/clock.hpp>

namespace rdmaxx {

namespace {

using namespace std::chrono_literals;
using detail::name_lookup;
using testing::HasSubstr;

/// A resolver that answers on request.
class hanging_resolver {
 public:
  hanging_resolver() = default;
  hanging_resolver(const hanging_resolver&) = delete;
  hanging_resolver& operator=(const hanging_resolver&) = delete;
  ~hanging_resolver() { go_.set_value(); }

  [[nodiscard]] std::function<name_lookup::answer()> question() const {
    return [go = go_shared_]() -> name_lookup::answer {
      go.wait();
      return std::vector{socket_address::parse("10.0.0.7:1").value()};
    };
  }

 private:
  std::promise<void> go_;
  std::shared_future<void> go_shared_ = go_.get_future().share();
};

void wait_for_the_threads() {
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (name_lookup::count() != 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(name_lookup::count(), 0U);
}

TEST(name_lookup, an_answer_in_time_is_given_and_leaves_no_thread) {
  const auto found = name_lookup::until("host", 30s, []() -> name_lookup::answer {
    return std::vector{socket_address::parse("10.0.0.7:1").value()};
  });

  ASSERT_TRUE(found.has_value()) << found.error();
  EXPECT_EQ(found->size(), 1U);
  EXPECT_EQ(name_lookup::count(), 0U);
}

TEST(name_lookup, the_resolvers_failure_is_given) {
  const auto failed = name_lookup::until(
      "host", 30s, []() -> name_lookup::answer { return errno_error("getaddrinfo", EIO); });

  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::io_error);
}

TEST(name_lookup, a_resolver_that_hangs_costs_no_more_than_the_timeout) {
  {
    const hanging_resolver resolver;

    const auto late = name_lookup::until("host.example.org", 60ms, resolver.question());

    ASSERT_FALSE(late.has_value());
    EXPECT_EQ(late.error(), std::errc::timed_out);
    EXPECT_THAT(late.error().message(), HasSubstr("host.example.org"));
    EXPECT_THAT(late.error().message(), HasSubstr("timed out after 60 ms"));
    EXPECT_EQ(name_lookup::count(), 1U) << "the question cannot be taken back";
  }
  wait_for_the_threads();
}

TEST(name_lookup, the_timeout_follows_library_clock) {
  {
    const hanging_resolver resolver;
    manual_clock time;
    auto late = std::async(std::launch::async,
                           [&] { return name_lookup::until("host", 1h, resolver.question()); });
    while (late.wait_for(1ms) != std::future_status::ready) time.advance(10min);
    EXPECT_EQ(late.get().error(), std::errc::timed_out);
  }
  wait_for_the_threads();
}

TEST(name_lookup, a_resolver_that_hangs_does_not_fill_the_process_with_threads) {
  {
    const hanging_resolver resolver;
    const auto question = resolver.question();
    for (std::size_t i = 0; i < name_lookup::most; ++i)
      EXPECT_EQ(name_lookup::until("host", 0ms, question).error(), std::errc::timed_out);

    const auto refused = name_lookup::until("host", 30s, question);

    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error(), std::errc::resource_unavailable_try_again);
    EXPECT_EQ(name_lookup::count(), name_lookup::most);
  }
  wait_for_the_threads();
  EXPECT_TRUE(socket_address::lookup("localhost:1", 30s).has_value()) << "there is room again";
}

TEST(name_lookup, addresses_need_no_resolver) {
  {
    const hanging_resolver resolver;
    const auto question = resolver.question();
    for (std::size_t i = 0; i < name_lookup::most; ++i)
      static_cast<void>(name_lookup::until("host", 0ms, question));

    EXPECT_TRUE(socket_address::lookup("10.0.0.7:7471", 0ms).has_value());
    EXPECT_FALSE(socket_address::lookup("localhost:7471", 0ms).has_value());
  }
  wait_for_the_threads();
}

}  // namespace

}  // namespace rdmaxx
