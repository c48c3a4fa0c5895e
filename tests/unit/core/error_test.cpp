#include <rdmaxx/core/error.hpp>

#include <cerrno>
#include <ios>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/core/format.hpp>

using namespace rdmaxx;
using testing::HasSubstr;
using testing::Not;

static_assert(sizeof(error) == sizeof(void*), "a result<T> must stay small");
static_assert(std::is_nothrow_move_constructible_v<error> &&
              std::is_nothrow_copy_constructible_v<error>);
static_assert(std::is_nothrow_move_assignable_v<error> && std::is_nothrow_copy_assignable_v<error>);
static_assert(std::is_convertible_v<error, std::error_code>);
static_assert(std::is_base_of_v<std::system_error, exception>);

namespace {

error full_error() {
  return error(
      {.operation = "ibv_post_send",
       .code = std::make_error_code(std::errc::not_enough_memory),
       .category = error_category::retryable,
       .problem = "the send queue is full",
       .hint = "poll first",
       .completion =
           completion_origin{.queue_pair = qpn(0x11), .request = wr_id(7), .vendor_code = 0x2a},
       .first_not_posted = 3});
}

}  // namespace

TEST(error, message_has_call_code_problem_origin_position_and_hint) {
  EXPECT_EQ(full_error().message(),
            "ibv_post_send failed: Cannot allocate memory [errno 12]: the send queue is full "
            "(queue pair 0x11, request 7, vendor code 0x2a) (first request not posted: 3) [hint: "
            "poll first]");
}

TEST(error, message_leaves_out_what_is_not_known) {
  const error bare({.operation = "call", .code = std::make_error_code(std::errc::io_error)});

  EXPECT_EQ(bare.message(), "call failed: Input/output error [errno 5]");
}

TEST(error, describe_fmt_and_stream_say_the_message) {
  std::ostringstream streamed;

  streamed << full_error();

  EXPECT_EQ(streamed.str(), full_error().message());
  EXPECT_EQ(describe(full_error()), full_error().message());
  EXPECT_EQ(fmt::format("{}", full_error()), full_error().message());
}

TEST(error, knows_its_parts) {
  const auto failure = full_error();

  EXPECT_EQ(failure.operation(), "ibv_post_send");
  EXPECT_EQ(failure.code(), std::errc::not_enough_memory);
  EXPECT_EQ(failure.category(), error_category::retryable);
  EXPECT_EQ(failure.problem(), "the send queue is full");
  EXPECT_EQ(failure.hint(), "poll first");
  EXPECT_EQ(failure.first_not_posted(), 3U);
  ASSERT_TRUE(failure.completion().has_value());
  EXPECT_EQ(failure.completion()->queue_pair, qpn(0x11));
  EXPECT_EQ(failure.completion()->request, wr_id(7));
  EXPECT_EQ(failure.completion()->vendor_code, 0x2aU);
}

TEST(error, origin_and_position_are_absent_unless_given) {
  const auto failure = errno_error("call", EIO);

  EXPECT_FALSE(failure.completion().has_value());
  EXPECT_FALSE(failure.first_not_posted().has_value());
}

TEST(error, copies_share_one_description) {
  const auto original = full_error();

  const error copy = original;
  error assigned = errno_error("other", EIO);
  assigned = original;

  EXPECT_EQ(copy.hint().data(), original.hint().data());
  EXPECT_EQ(assigned.hint().data(), original.hint().data());
}

TEST(error, copies_outlive_the_original) {
  auto original = std::make_unique<error>(full_error());
  const error copy = *original;

  original.reset();

  EXPECT_EQ(copy.message(), full_error().message());
}

TEST(error, survives_assignment_to_itself) {
  error failure = full_error();
  const error& same = failure;

  failure = same;
  EXPECT_EQ(failure.message(), full_error().message());

  failure = std::move(const_cast<error&>(same));
  EXPECT_EQ(failure.message(), full_error().message());
}

TEST(error, is_harmless_after_a_move) {
  error source = full_error();
  const error target = std::move(source);

  // NOLINTBEGIN(bugprone-use-after-move,hicpp-invalid-access-moved): that is the question here
  EXPECT_THAT(source.message(), Not(testing::IsEmpty()));
  EXPECT_EQ(source.code(), std::errc::not_enough_memory);
  EXPECT_THAT(source.within("outside").message(), HasSubstr("outside: "));
  const error copy_of_nothing = source;
  EXPECT_EQ(copy_of_nothing.message(), source.message());
  source = target;
  // NOLINTEND(bugprone-use-after-move,hicpp-invalid-access-moved)

  EXPECT_EQ(source.message(), full_error().message());
}

TEST(error, may_be_copied_and_read_by_many_threads) {
  const auto shared = full_error();
  const auto expected = shared.message();
  std::vector<int> equal(4, 0);
  {
    std::vector<std::jthread> threads;
    for (auto& count : equal) {
      threads.emplace_back([&shared, &expected, &count] {
        for (int i = 0; i < 1000; ++i) {
          const error copy = shared;
          count += copy.hint() == "poll first" && copy.message() == expected ? 1 : 0;
        }
      });
    }
  }
  EXPECT_THAT(equal, testing::Each(1000));
}

TEST(error, within_tells_it_from_further_out_and_keeps_the_rest) {
  const auto inner = full_error();

  const auto outer = inner.within("opening rxe0").within("starting");

  EXPECT_EQ(outer.operation(), "starting: opening rxe0: ibv_post_send");
  EXPECT_EQ(outer.code(), inner.code());
  EXPECT_EQ(outer.category(), inner.category());
  EXPECT_EQ(outer.hint(), inner.hint());
  EXPECT_EQ(outer.first_not_posted(), inner.first_not_posted());
  EXPECT_EQ(inner.operation(), "ibv_post_send") << "the original is as it was";
}

TEST(error, as_changes_the_category_and_keeps_the_rest) {
  const auto general = errno_error("closing a stream", ETIMEDOUT, "the peer is silent", "wait");
  const auto known = general.as(error_category::gone);

  EXPECT_EQ(general.category(), error_category::retryable);
  EXPECT_EQ(known.category(), error_category::gone);
  EXPECT_EQ(known.message(), general.message());
}

TEST(error, the_category_says_whether_to_try_again) {
  const auto category = [](int value) { return errno_error("x", value).category(); };
  EXPECT_EQ(category(EADDRINUSE), error_category::resources);
  EXPECT_EQ(category(EADDRNOTAVAIL), error_category::misuse);
  EXPECT_EQ(category(EPIPE), error_category::gone);
  EXPECT_EQ(category(ECONNABORTED), error_category::gone);
  EXPECT_EQ(category(ENODATA), error_category::peer);
  EXPECT_EQ(category(EISCONN), error_category::misuse);
  for (const int value : {EADDRINUSE, EADDRNOTAVAIL, EPIPE, ECONNABORTED, ENODATA, EISCONN})
    EXPECT_FALSE(errno_error("x", value).hint().empty()) << value;
}

TEST(error, compares_with_codes_conditions_and_errc) {
  const auto failure = errno_error("call", ETIMEDOUT);

  EXPECT_TRUE(failure == std::errc::timed_out);
  EXPECT_TRUE(failure == std::error_code(ETIMEDOUT, std::generic_category()));
  EXPECT_TRUE(failure == std::make_error_condition(std::errc::timed_out));
  EXPECT_FALSE(failure == std::errc::invalid_argument);
}

TEST(error, converts_to_error_code_and_system_error) {
  const auto failure = errno_error("call", ENODEV);

  const std::error_code code = failure;
  const std::system_error thrown(failure);

  EXPECT_EQ(code, std::errc::no_such_device);
  EXPECT_EQ(thrown.code(), code);
}

TEST(error, exception_carries_error_code_and_message) {
  const exception thrown(full_error());
  const exception copy = thrown;

  EXPECT_EQ(copy.what(), full_error().message());
  EXPECT_EQ(copy.code(), std::errc::not_enough_memory);
  EXPECT_EQ(copy.error().operation(), "ibv_post_send");
}

TEST(error, misuse_is_an_invalid_argument_with_the_reason) {
  const auto failure = misuse_error("gather", "outside", "stay inside");

  EXPECT_EQ(failure, std::errc::invalid_argument);
  EXPECT_EQ(failure.category(), error_category::misuse);
  EXPECT_EQ(failure.problem(), "outside");
  EXPECT_EQ(failure.hint(), "stay inside");
}

TEST(error, errno_errors_have_category_and_hint_of_the_errno) {
  struct expectation {
    int errno_value;
    error_category category;
  };
  for (const auto& [errno_value, category] :
       {expectation{EAGAIN, error_category::retryable},
        expectation{EINTR, error_category::retryable},
        expectation{ENOMEM, error_category::resources},
        expectation{EMFILE, error_category::resources},
        expectation{EBUSY, error_category::resources}, expectation{EINVAL, error_category::misuse},
        expectation{EFAULT, error_category::misuse}, expectation{EACCES, error_category::misuse},
        expectation{ENODEV, error_category::gone}, expectation{EBADF, error_category::gone},
        expectation{ECONNREFUSED, error_category::peer},
        expectation{EHOSTUNREACH, error_category::peer},
        expectation{EOPNOTSUPP, error_category::unsupported},
        expectation{ENOSYS, error_category::unsupported}}) {
    const auto failure = errno_error("call", errno_value);

    EXPECT_EQ(failure.category(), category) << failure;
    EXPECT_FALSE(failure.hint().empty()) << failure;
    EXPECT_EQ(category_of(failure.code()), category) << failure;
  }
}

TEST(error, a_given_hint_replaces_the_general_one) {
  EXPECT_EQ(errno_error("call", ENOMEM, "too much", "ask for less").hint(), "ask for less");
}

TEST(error, category_of_an_unfamiliar_code_is_unknown) {
  EXPECT_EQ(category_of(std::error_code(EXDEV, std::generic_category())), error_category::unknown);
  EXPECT_EQ(category_of(std::error_code(EINVAL, std::iostream_category())), error_category::unknown)
      << "the same number means something else in another category";
}

TEST(error, category_of_knows_system_codes_too) {
  EXPECT_EQ(category_of(std::error_code(ENODEV, std::system_category())), error_category::gone);
}
