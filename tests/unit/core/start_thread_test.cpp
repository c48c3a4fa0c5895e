#include "core/start_thread.hpp"

#include <array>
#include <csignal>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>
#include <pthread.h>

namespace {

using rdmaxx::detail::start_thread;

bool is_blocked(int signal) {
  sigset_t blocked{};
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return ::sigismember(&blocked, signal) == 1;
}

TEST(start_thread, blocks_signals_in_the_new_thread_and_in_no_other) {
  bool there = false;
  auto thread = start_thread("rdmaxx-test", [&] { there = is_blocked(SIGTERM); });
  EXPECT_FALSE(is_blocked(SIGTERM));
  thread.join();
  EXPECT_TRUE(there);
}

TEST(start_thread, names_the_thread) {
  std::array<char, 16> name{};
  std::mutex named;
  named.lock();
  auto thread = start_thread("rdmaxx-test", [&] {
    const std::lock_guard wait(named);
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  });
  named.unlock();
  thread.join();
  EXPECT_STREQ(name.data(), "rdmaxx-test");
}

}  // namespace
