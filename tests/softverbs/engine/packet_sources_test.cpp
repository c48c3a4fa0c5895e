#include <engine/packet_sources.hpp>

#include <chrono>
#include <cstdint>

#include <base/descriptor.hpp>
#include <engine/endpoint.hpp>
#include <engine/timer_queue.hpp>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace softverbs::engine {
namespace {

using namespace std::chrono_literals;

class counted_source final : public packet_source {
 public:
  explicit counted_source(bool has_packets = true) : has_packets_(has_packets) {}
  bool receive(receive_state& /*state*/, std::uint32_t events) override {
    ++asked;
    last_events = events;
    return has_packets_;
  }

  int asked = 0;
  std::uint32_t last_events = 0;

 private:
  bool has_packets_;
};

class sources : public testing::Test {
 protected:
  [[nodiscard]] bool receive() { return watched_.receive_ready(state_); }

  timer_queue timers_{[](time_point) {}};
  packet_sources watched_{timers_};
  receive_state state_;
  descriptor ready_{::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
  descriptor idle_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

TEST_F(sources, that_are_ready_are_asked) {
  counted_source ready;
  counted_source idle;
  watched_.add(ready_.get(), ready, EPOLLIN);
  watched_.add(idle_.get(), idle, EPOLLIN);
  EXPECT_TRUE(receive());
  EXPECT_EQ(ready.asked, 1);
  EXPECT_EQ(ready.last_events, EPOLLIN);
  EXPECT_EQ(idle.asked, 0);
}

TEST_F(sources, with_news_alone_have_no_packets) {
  counted_source news(false);
  watched_.add(ready_.get(), news, EPOLLIN);
  EXPECT_FALSE(receive());
  EXPECT_EQ(news.asked, 1);
}

TEST_F(sources, a_descriptor_goes_over_to_the_source_that_was_added_last) {
  counted_source first;
  counted_source second;
  watched_.add(ready_.get(), first, EPOLLIN);
  watched_.add(ready_.get(), second, EPOLLIN);
  EXPECT_TRUE(receive());
  EXPECT_EQ(first.asked, 0);
  EXPECT_EQ(second.asked, 1);
}

TEST_F(sources, that_are_removed_are_not_asked_although_a_copy_of_the_descriptor_is_open) {
  counted_source source;
  watched_.add(ready_.get(), source, EPOLLIN);
  const descriptor copy(::dup(ready_.get()));  // as a child of a fork has it
  watched_.remove(ready_.get());
  ready_.reset();
  EXPECT_FALSE(receive());
  EXPECT_EQ(source.asked, 0);
}

TEST_F(sources, that_pause_are_asked_again_after_a_while) {
  counted_source source;
  watched_.add(ready_.get(), source, EPOLLIN);
  watched_.pause(ready_.get(), source, 10ms, EPOLLIN);
  EXPECT_FALSE(receive());
  const auto due = timers_.next_due();
  ASSERT_NE(due, never);
  EXPECT_TRUE(timers_.run_next(due, [](endpoint&) {}));
  EXPECT_TRUE(receive());
  EXPECT_EQ(source.asked, 1);
}

}  // namespace
}  // namespace softverbs::engine
