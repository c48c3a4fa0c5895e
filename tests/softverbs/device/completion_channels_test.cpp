// Completion channels: one event for each arming, on a descriptor that behaves like any other.

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "blocked_thread.hpp"
#include "connected_pair.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

class completion_channels : public testing::Test {
 protected:
  void write_once() {
    ASSERT_EQ(write(1, {here_.sge()}, there_.address(), there_.rkey()).post(pair_.a.qp.get()), 0);
  }
  /// A send to b, whose receive has been posted.
  void send_once(unsigned flags) {
    ASSERT_EQ(post_receive(pair_.b.qp.get(), 1, {there_.sge()}), 0);
    ASSERT_EQ(send(1, {here_.sge()}).flags(flags).post(pair_.a.qp.get()), 0);
    wait_for_success(pair_.a.send_cq.get());
  }
  static ibv_cq* take(ibv_comp_channel* channel) {
    wait_until_readable(channel->fd);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
    return cq;
  }
  static void make_nonblocking(ibv_comp_channel* channel) {
    ASSERT_EQ(::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
  }

  connected_pair pair_{pair_options{.with_channel = true}};
  buffer here_{pair_.a.domain(), 8};
  buffer beside_{pair_.a.domain(), 8};
  buffer there_{pair_.b.domain(), 8};
  ibv_comp_channel* channel_ = pair_.a.channel.get();
  ibv_cq* cq_ = pair_.a.send_cq.get();
};

TEST_F(completion_channels, an_arming_gives_one_event) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  write_once();
  EXPECT_EQ(take(channel_), cq_);
  ibv_ack_cq_events(cq_, 1);
  wait_for_success(cq_);

  write_once();
  wait_for_success(cq_);
  EXPECT_FALSE(is_readable(channel_->fd)) << "the queue was not armed again";
}

TEST_F(completion_channels, what_was_there_before_arming_gives_none) {
  write_once();
  // b's message comes behind its acknowledgement: the completion of the write is in its queue.
  ASSERT_EQ(post_receive(pair_.a.qp.get(), 2, {}), 0);
  ASSERT_EQ(send(3, {}).post(pair_.b.qp.get()), 0);
  wait_for_success(pair_.a.recv_cq.get());

  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  EXPECT_FALSE(is_readable(channel_->fd));
  EXPECT_EQ(completions_in(cq_).size(), 1U);

  write_once();
  EXPECT_EQ(take(channel_), cq_) << "it is still armed";
  ibv_ack_cq_events(cq_, 1);
}

TEST_F(completion_channels, what_came_after_a_poll_found_nothing_gives_an_event_when_armed) {
  EXPECT_TRUE(completions_in(cq_).empty());
  write_once();
  ASSERT_EQ(post_receive(pair_.a.qp.get(), 2, {}), 0);
  ASSERT_EQ(send(3, {}).post(pair_.b.qp.get()), 0);
  wait_for_success(pair_.a.recv_cq.get());

  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  EXPECT_EQ(take(channel_), cq_);
  ibv_ack_cq_events(cq_, 1);
  EXPECT_EQ(completions_in(cq_).size(), 1U);

  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  EXPECT_FALSE(is_readable(channel_->fd)) << "all have been read";
}

TEST_F(completion_channels, what_came_unsolicited_gives_none_when_armed_for_solicited_ones) {
  auto* const channel = pair_.b.channel.get();
  auto* const cq = pair_.b.recv_cq.get();
  EXPECT_TRUE(completions_in(cq).empty());
  send_once(0);
  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  EXPECT_FALSE(is_readable(channel->fd));
  send_once(IBV_SEND_SOLICITED);
  EXPECT_EQ(take(channel), cq);
  ibv_ack_cq_events(cq, 1);

  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  EXPECT_EQ(take(channel), cq) << "it is still there";
  ibv_ack_cq_events(cq, 1);
}

TEST_F(completion_channels, the_user_context_comes_with_the_event) {
  int mark = 0;
  const auto channel = own(ibv_create_comp_channel(pair_.context));
  const auto cq = own(ibv_create_cq(pair_.context, 16, &mark, channel.get(), 0));
  const connected_pair other(pair_.context,
                             {.all_completions = cq.get(), .same_domain = pair_.a.domain()});
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
  ASSERT_EQ(write(1, {here_.sge()}, beside_.address(), beside_.rkey()).post(other.a.qp.get()), 0);

  wait_until_readable(channel->fd);
  ibv_cq* told = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel.get(), &told, &context), 0);
  EXPECT_EQ(told, cq.get());
  EXPECT_EQ(context, &mark);
  ibv_ack_cq_events(told, 1);
}

TEST_F(completion_channels, every_event_is_an_edge) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  ASSERT_GE(epoll, 0);
  epoll_event interest{.events = EPOLLIN | EPOLLET, .data = {.fd = channel_->fd}};
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, channel_->fd, &interest), 0);
  constexpr int minute = 60'000;
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    write_once();
    epoll_event found{};
    ASSERT_EQ(::epoll_wait(epoll, &found, 1, minute), 1) << "though none was taken before";
    wait_for_success(cq_);
    EXPECT_EQ(::epoll_wait(epoll, &found, 1, 0), 0);
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(take(channel_), cq_);
  ibv_ack_cq_events(cq_, 5);
  EXPECT_FALSE(is_readable(channel_->fd));
  ::close(epoll);
}

TEST_F(completion_channels, a_descriptor_that_must_not_block_does_not) {
  make_nonblocking(channel_);
  ibv_cq* cq = nullptr;
  void* context = nullptr;

  errno = 0;
  EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);

  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  write_once();
  wait_until_readable(channel_->fd);
  EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &context), 0);
  ibv_ack_cq_events(cq_, 1);
  errno = 0;
  EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(completion_channels, armed_for_solicited_ones_it_is_silent_about_others) {
  auto* const channel = pair_.b.channel.get();
  auto* const cq = pair_.b.recv_cq.get();
  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  send_once(0);
  wait_for_success(cq);
  EXPECT_FALSE(is_readable(channel->fd));

  send_once(IBV_SEND_SOLICITED);
  EXPECT_EQ(take(channel), cq);
  ibv_ack_cq_events(cq, 1);
  wait_for_success(cq);

  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 2, {there_.sge()}), 0);
  ASSERT_EQ(to_state(IBV_QPS_ERR).apply(pair_.b.qp.get()), 0);
  EXPECT_EQ(take(channel), cq) << "an error counts";
  ibv_ack_cq_events(cq, 1);
}

TEST_F(completion_channels, a_datagram_can_be_solicited) {
  const connected_pair other(pair_.context, {.type = IBV_QPT_UD, .with_channel = true});
  const auto ah = address_of_neighbour(other.a.domain());
  const buffer into(other.b.domain(), grh_bytes);
  auto* const cq = other.b.recv_cq.get();
  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  for (const unsigned flags : {0U, unsigned{IBV_SEND_SOLICITED}}) {
    EXPECT_FALSE(is_readable(other.b.channel->fd));
    ASSERT_EQ(post_receive(other.b.qp.get(), 1, {into.sge()}), 0);
    ASSERT_EQ(
        send(1, {}).to(ah.get(), other.b.qp->qp_num, queue_key).flags(flags).post(other.a.qp.get()),
        0);
    wait_for_success(other.a.send_cq.get());
    wait_for_success(cq);
  }
  EXPECT_EQ(take(other.b.channel.get()), cq);
  ibv_ack_cq_events(cq, 1);
}

TEST_F(completion_channels, arming_for_solicited_ones_does_not_take_back_an_arming_for_all) {
  auto* const cq = pair_.b.recv_cq.get();
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  send_once(0);
  EXPECT_EQ(take(pair_.b.channel.get()), cq);
  ibv_ack_cq_events(cq, 1);
}

TEST_F(completion_channels, a_queue_ends_when_its_events_are_acknowledged) {
  auto cq = own(ibv_create_cq(pair_.context, 16, nullptr, channel_, 0));
  {
    const connected_pair other(pair_.context,
                               {.all_completions = cq.get(), .same_domain = pair_.a.domain()});
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
      ASSERT_EQ(write(1, {here_.sge()}, beside_.address(), beside_.rkey()).post(other.a.qp.get()),
                0);
      ASSERT_EQ(take(channel_), cq.get());
    }
  }
  auto* const raw = cq.release();
  std::atomic<bool> acknowledged = false;
  blocked_thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_cq(raw), 0);
    EXPECT_TRUE(acknowledged);
  });
  destroyer.wait_until_blocked();
  ibv_ack_cq_events(raw, 1);
  destroyer.wait_until_blocked();
  acknowledged = true;
  ibv_ack_cq_events(raw, 1);
}

TEST_F(completion_channels, events_that_nobody_took_end_with_their_queue) {
  auto cq = own(ibv_create_cq(pair_.context, 16, nullptr, channel_, 0));
  {
    const connected_pair other(pair_.context,
                               {.all_completions = cq.get(), .same_domain = pair_.a.domain()});
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    ASSERT_EQ(write(1, {here_.sge()}, beside_.address(), beside_.rkey()).post(other.a.qp.get()), 0);
    wait_until_readable(channel_->fd);
  }
  cq = nullptr;
  EXPECT_FALSE(is_readable(channel_->fd));
}

TEST_F(completion_channels, a_signal_interrupts_the_wait) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> done = false;
  int result = 0;
  int error = 0;
  {
    std::jthread waiter([&] {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      result = ibv_get_cq_event(channel_, &cq, &context);
      error = errno;
      done = true;
    });
    // One that comes before the wait interrupts nothing.
    while (!done) {
      ::pthread_kill(waiter.native_handle(), SIGUSR1);
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(result, -1);
  EXPECT_EQ(error, EINTR);
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_F(completion_channels, a_wait_ends_with_the_event) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ibv_cq* told = nullptr;
  {
    blocked_thread waiter([&] {
      void* context = nullptr;
      EXPECT_EQ(ibv_get_cq_event(channel_, &told, &context), 0);
    });
    waiter.wait_until_blocked();
    write_once();
  }
  EXPECT_EQ(told, cq_);
  ibv_ack_cq_events(cq_, 1);
}

TEST_F(completion_channels, a_channel_in_use_stays) {
  EXPECT_EQ(ibv_destroy_comp_channel(channel_), EBUSY);
}

}  // namespace
}  // namespace softverbs::device_tests
