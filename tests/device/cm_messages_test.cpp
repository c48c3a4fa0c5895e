// Error messages of the connection manager and of streams: the values, what to do, and a category
// that says whether to try again.

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "cm_conversation.hpp"
#include "stream_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(cm_messages, a_port_that_is_taken_is_named) {
  const auto first = cm::listen(own_address()).value();
  const auto port = first.local_address().port();

  const auto second = cm::listen(first.local_address());

  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error(), error_of_taken_port()) << second.error();
  EXPECT_EQ(second.error().category(), error_category::resources) << second.error();
  EXPECT_THAT(second.error().message(),
              AllOf(HasSubstr(describe(first.local_address())),
                    HasSubstr(fmt::format("another program uses port {} there", port)),
                    HasSubstr("use another port")));
}

TEST(cm_messages, a_wildcard_whose_port_is_taken_tells_that_it_stands_for_every_address) {
  const auto first = cm::listen(own_address()).value();
  const auto port = first.local_address().port();

  const auto second = cm::listen(fmt::format("0.0.0.0:{}", port));

  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().category(), error_category::resources) << second.error();
  EXPECT_THAT(second.error().message(),
              AllOf(HasSubstr("every address of this host"),
                    HasSubstr(fmt::format("uses port {} on one of them", port))));
}

TEST(cm_messages, too_much_private_data_is_an_error_with_the_limit) {
  if (device_under_test::get().is_iwarp()) GTEST_SKIP() << "the device lacks the limits of RoCE";
  const auto waiting = cm::listen(own_address()).value();
  const std::vector<std::byte> data(57);

  const auto refused = cm::connect(waiting.local_address(), {.parameters = {.private_data = data}});

  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().category(), error_category::misuse) << refused.error();
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr("57 bytes of private data"), HasSubstr("at most 56")));
}

TEST(cm_messages, the_error_for_an_ipv6_address_without_brackets_suggests_them) {
  const auto connected = stream::connect("::1:7471");
  ASSERT_FALSE(connected.has_value());
  EXPECT_EQ(connected.error().category(), error_category::misuse) << connected.error();
  EXPECT_THAT(connected.error().message(), HasSubstr("use brackets: [::1]:7471"));

  const auto bound = stream_listener::listen("::1:7471");
  ASSERT_FALSE(bound.has_value());
  EXPECT_THAT(bound.error().message(), HasSubstr("use brackets: [::1]:7471"));
}

TEST(cm_messages, an_identifier_is_described_with_its_queue_pair) {
  const cm_conversation talk;
  const auto text = describe(talk.client.id());
  EXPECT_THAT(text, HasSubstr(fmt::format("queue pair {:#x}", talk.client.qp().number().value())));
  if (device_under_test::get().has(capability::truthful_state)) {
    EXPECT_THAT(text, HasSubstr(" rts"));
  }
}

TEST(stream_messages, writing_after_the_own_shutdown_is_misuse) {
  stream_pair pair;
  pair.client.shutdown(direction::write);
  const auto refused = pair.client.write_all(std::array<std::byte, 1>{});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error(), std::errc::broken_pipe);
  EXPECT_EQ(refused.error().category(), error_category::misuse) << refused.error();
  EXPECT_THAT(refused.error().message(), HasSubstr("this side has shut down writing"));
}

TEST(stream_messages, streams_and_halves_are_described_with_their_queue_pair) {
  stream_pair pair;
  const auto number = fmt::format("queue pair {:#x}", pair.client.native().qp.number().value());
  const auto way = fmt::format("{} → {}", describe(pair.client.local_address()),
                               describe(pair.client.peer_address()));
  EXPECT_THAT(describe(pair.client), AllOf(HasSubstr("stream " + way), HasSubstr(number)));
  const auto [reads, writes] = std::move(pair.client).into_split();
  EXPECT_THAT(describe(reads), AllOf(HasSubstr("read_half " + way), HasSubstr(number)));
  EXPECT_THAT(describe(writes), AllOf(HasSubstr("write_half " + way), HasSubstr(number)));
  EXPECT_EQ(describe(pair.client), "stream (empty)");  // NOLINT(bugprone-use-after-move)
}

TEST(stream_messages, an_early_end_is_the_peers) {
  stream_pair pair;
  pair.client.write_all(std::array<std::byte, 3>{}).value();
  pair.client.shutdown(direction::write);
  std::array<std::byte, 4> four{};
  const auto ended = pair.server.read_exactly(four);
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().category(), error_category::peer) << ended.error();
  EXPECT_THAT(ended.error().message(), HasSubstr("after 3 of 4 bytes"));
  EXPECT_FALSE(ended.error().hint().empty());
}

TEST(stream_messages, a_close_that_gave_up_leaves_nothing_to_try_again) {
  stream_pair pair;
  const auto closed = pair.client.close(50ms);
  ASSERT_FALSE(closed.has_value());
  EXPECT_EQ(closed.error(), std::errc::timed_out);
  EXPECT_EQ(closed.error().category(), error_category::gone) << closed.error();
}

}  // namespace

}  // namespace rdmaxx::device_tests
