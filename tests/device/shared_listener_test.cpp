// A listener that several threads share: each request goes to one of them, also when its peer gives
// up while the request is being taken.

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "cm_conversation.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

TEST(shared_listener, requests_whose_peers_give_up_disturb_nobody) {
  // siw keeps an identifier that has asked for ten seconds, and has few queues.
  if (device_under_test::get().is_iwarp()) GTEST_SKIP() << "the device lacks peers that give up";
  constexpr int acceptors = 4;
  constexpr int rounds = 40;
  const auto waiting = cm::listen(own_address()).value();
  std::atomic<bool> over = false;
  std::atomic<int> requests = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < acceptors; ++i) {
    threads.emplace_back([&] {
      while (!over) {
        auto request = waiting.get_request(50ms);
        if (!request) {
          ADD_FAILURE() << request.error();
          return;
        }
        if (*request) ++requests;  // and drops it, which refuses
      }
    });
  }

  int asked = 0;
  const auto give_up = [&] {
    for (int round = 0; round < rounds; ++round) {
      const auto id = cm::resolve(waiting.local_address(), {.timeout = patience}).value();
      id.create_qp({.capabilities = {.max_send_wr = 1, .max_recv_wr = 1}}).value();
      if (id.connect()) ++asked;
    }  // each identifier ends at once
  };
  give_up();
  wait_until("all requests", [&] { return requests == asked; });
  over = true;

  EXPECT_EQ(asked, rounds);
}

}  // namespace

}  // namespace rdmaxx::device_tests
