#pragma once

// start_thread: starts a thread of the library. It blocks every signal: the program's handlers run
// on its own threads.
//
//   thread_ = start_thread("rdmaxx-flush", [this] { work(); });
//
// Threads: any. The signal mask of the caller does not change, whether the start succeeds or not.

#include <csignal>
#include <thread>
#include <utility>

#include <pthread.h>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// ps and debuggers show the name: 15 characters at most. Throws as std::thread does.
template <class Work>
[[nodiscard]] std::thread start_thread(const char* name, Work work) {
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
  const blocked_signals inherited;
  std::thread started(std::move(work));
  ::pthread_setname_np(started.native_handle(), name);
  return started;
}

}  // namespace RDMAXX_NAMESPACE::detail
