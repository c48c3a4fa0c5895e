// What the headers say about threads: many may post, poll, create and destroy at once.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

/// Threads whose failures are failures of the test.
class crew {
 public:
  template <class Work>
  void hire(Work work) {
    threads_.emplace_back([this, work = std::move(work)]() mutable {
      try {
        work();
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
    });
  }

  void join() {
    threads_.clear();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

/// Posts, and waits while the queue is full.
template <class Request>
void post_patiently(const queue_pair& qp, const Request& request) {
  wait_until("room in the send queue", [&] {
    const auto posted = qp.post(request);
    if (posted) return true;
    if (posted.error().category() != error_category::retryable) throw exception(posted.error());
    std::this_thread::yield();
    return false;
  });
}

class threads : public device_test {};

TEST_F(threads, post_on_one_queue_pair_and_poll_one_queue) {
  constexpr std::size_t posters = 4;
  constexpr std::size_t pollers = 2;
  constexpr std::size_t writes_each = 300;
  constexpr std::size_t bytes = 32;
  constexpr std::size_t total = posters * writes_each;
  const connected_pair pair({.capabilities = {.max_send_wr = 32}, .cq_capacity = total});
  const auto from = pair.a.local_memory(total * bytes);
  const auto to = pair.b.shared_memory(total * bytes);
  fill_pattern(from.bytes(), 1);
  std::vector<std::atomic<int>> seen(total);
  std::atomic<std::size_t> completed = 0;
  crew all;

  for (std::size_t poster = 0; poster < posters; ++poster) {
    all.hire([&, poster] {
      for (std::size_t i = 0; i < writes_each; ++i) {
        const auto place = (i * posters + poster) * bytes;
        const std::array element{from.gather(from.bytes().subspan(place, bytes))};
        post_patiently(
            pair.a.qp,
            write_wr{.id = wr_id{place / bytes}, .from = element, .to = to.remote(place)});
      }
    });
  }
  for (std::size_t poller = 0; poller < pollers; ++poller) {
    all.hire([&] {
      std::array<work_completion, 8> room;
      wait_until("all completions", [&] {
        const auto some = pair.a.send_cq.poll(room).value();
        for (const auto& one : some) {
          if (!one) throw exception(one.error());
          ++seen.at(one.id().value());
        }
        completed += some.size();
        if (some.empty()) std::this_thread::yield();
        return completed >= total;
      });
    });
  }
  all.join();

  for (std::size_t i = 0; i < total; ++i) ASSERT_EQ(seen[i], 1) << "write " << i;
  const auto inbox = pair.b.local_memory(1);
  pair.b.qp.post(recv_wr{.into = inbox.scatter()}).value();
  pair.a.qp.post(send_wr{}).value();
  wait_for_success(pair.b.recv_cq);
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(threads, send_and_receive_at_both_ends) {
  constexpr std::uint64_t messages = 300;
  constexpr std::uint64_t receives = 16;
  const connected_pair pair({.cq_capacity = messages});
  crew all;
  // Each side sends its messages while it receives the other's, which carry their number.
  const auto talk = [&](const pair_side& side, std::atomic<std::uint64_t>& credits,
                        std::atomic<std::uint64_t>& granted) {
    all.hire([&] {
      const auto outbox = side.local_memory(messages * 8);
      for (std::uint64_t i = 0; i < messages; ++i) {
        wait_until("a receive at the other side",
                   [&] { return std::this_thread::yield(), i < credits; });
        const auto place = outbox.bytes().subspan(i * 8, 8);
        std::memcpy(place.data(), &i, sizeof i);
        const std::array element{outbox.gather(place)};
        post_patiently(side.qp, send_wr{.id = wr_id{i}, .from = element});
      }
      wait_for_successes(side.send_cq, messages);
    });
    all.hire([&] {
      const auto inbox = side.local_memory(messages * 8);
      const auto post = [&](std::uint64_t i) {
        side.qp
            .post(recv_wr{.id = wr_id{i}, .into = inbox.scatter(inbox.bytes().subspan(i * 8, 8))})
            .value();
        ++granted;
      };
      for (std::uint64_t i = 0; i < receives; ++i) post(i);
      for (std::uint64_t i = 0; i < messages; ++i) {
        const auto received = wait_for_success(side.recv_cq);
        std::uint64_t number = 0;
        std::memcpy(&number, inbox.bytes().subspan(i * 8, 8).data(), sizeof number);
        EXPECT_EQ(received.id(), wr_id{i});
        EXPECT_EQ(number, i);
        if (i + receives < messages) post(i + receives);
      }
    });
  };
  std::atomic<std::uint64_t> at_a = 0;
  std::atomic<std::uint64_t> at_b = 0;

  talk(pair.a, at_b, at_a);
  talk(pair.b, at_a, at_b);

  all.join();
}

TEST_F(threads, create_and_destroy_on_one_context) {
  constexpr int workers = 4;
  constexpr int rounds = 25;
  const auto pd = ctx.alloc_pd().value();
  const auto shared_cq = ctx.create_cq({.capacity = 16}).value();
  crew all;

  for (int worker = 0; worker < workers; ++worker) {
    // By value: each thread has handles of its own to the same objects.
    all.hire([ctx = ctx, pd, shared_cq] {
      for (int round = 0; round < rounds; ++round) {
        const auto own_pd = ctx.alloc_pd().value();
        const auto own_cq = ctx.create_cq({.capacity = 8}).value();
        const auto region = own_pd.allocate_local({.bytes = 64}).value();
        const auto qp = pd.create_qp({.send_cq = own_cq, .recv_cq = shared_cq}).value();
        EXPECT_TRUE(qp.query().has_value());
      }
    });
  }

  all.join();
}

TEST_F(threads, release_one_object_at_once) {
  constexpr int rounds = 10;
  constexpr int holders = 4;
  for (int round = 0; round < rounds; ++round) {
    auto own = dut.open();
    auto pd = own.alloc_pd().value();
    auto cq = own.create_cq({.capacity = 8}).value();
    std::atomic<int> ready = 0;
    crew all;
    for (int holder = 0; holder < holders; ++holder) {
      // The last of them, whichever it is, destroys everything.
      all.hire([own, pd, cq, &ready]() mutable {
        ++ready;
        while (ready < holders) std::this_thread::yield();
        const auto copy = cq;
        own = {};
        cq = {};
        pd = {};
      });
    }
    own = {};
    pd = {};
    cq = {};
    all.join();
  }
}

TEST_F(threads, share_the_events_of_a_channel) {
  constexpr int messages = 200;
  const connected_pair pair({.with_channel = true});
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);
  std::atomic<int> completed = 0;
  crew all;
  pair.a.send_cq.req_notify().value();
  for (int waiter = 0; waiter < 3; ++waiter) {
    all.hire([&] {
      wait_until("all completions", [&] {
        if (auto event = pair.a.channel.get_event(std::chrono::milliseconds(50))) {
          event->queue().req_notify().value();
          completed += static_cast<int>(completions_in(event->queue()).size());
        }
        return completed >= messages;
      });
    });
  }

  for (int i = 0; i < messages; ++i) {
    const std::array element{from.gather()};
    post_patiently(pair.a.qp, write_wr{.from = element, .to = to.remote()});
  }

  all.join();
  EXPECT_EQ(completed, messages);
}

}  // namespace
}  // namespace rdmaxx::device_tests
