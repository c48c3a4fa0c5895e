// A listener that several threads share: each request goes to one of them, also when its peer gives
// up while the request is being taken.

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "cm_conversation.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

TEST(shared_listener, peers_that_give_up_disturb_no_other_thread) {
  // siw keeps an identifier that has asked for ten seconds, and has few queues.
  if (device_under_test::get().is_iwarp()) GTEST_SKIP() << "the device lacks peers that give up";
  constexpr int acceptors = 4;
  constexpr int rounds = 40;
  const auto waiting = cm::listen(own_address()).value();
  std::atomic<bool> over = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < acceptors; ++i) {
    threads.emplace_back([&] {
      while (!over) {
        auto request = waiting.get_request(50ms);
        if (!request && request.error() != std::errc::timed_out) {
          ADD_FAILURE() << request.error();
          return;
        }
      }  // which refuses it
    });
  }

  // Each identifier ends at once: some requests are taken while they are withdrawn, some never
  // seen.
  for (int round = 0; round < rounds; ++round) {
    const auto id = cm::resolve(waiting.local_address(), {.timeout = patience}).value();
    id.create_qp({.capabilities = {.max_send_wr = 1, .max_recv_wr = 1}}).value();
    EXPECT_TRUE(id.connect().has_value());
  }
  // The listener still listens.
  const auto refused = cm::connect(waiting.local_address(), {.timeout = patience});
  over = true;

  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().category(), error_category::peer) << refused.error();
}

}  // namespace

}  // namespace rdmaxx::device_tests
