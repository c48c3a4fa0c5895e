// While it lives, this thread blocks every signal. Threads that are made meanwhile keep doing so:
// the user's handlers run on the user's threads.
#pragma once

#include <csignal>

#include <pthread.h>

namespace softverbs {

class blocked_signals {
 public:
  blocked_signals() noexcept {
    sigset_t all{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  blocked_signals(const blocked_signals&) = delete;
  blocked_signals& operator=(const blocked_signals&) = delete;
  ~blocked_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace softverbs
