#pragma once

// forked_peer: another process of this host that talks to the one under test, and can be stopped,
// resumed and killed. It tells what the test has to know of it through a pipe.

#include <csignal>
#include <exception>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace softverbs::device_tests {

class forked_peer {
 public:
  /// In the child, once: for the parent's receive().
  class teller {
   public:
    explicit teller(int pipe) : pipe_(pipe) {}
    template <class T>
    void tell(const T& value) const {
      static_assert(std::is_trivially_copyable_v<T>);
      if (::write(pipe_, &value, sizeof value) != sizeof value) ::_exit(1);
    }

   private:
    int pipe_;
  };

  /// `life(teller)` is what the child does; it exits with 0 if that returns, and 1 if it throws.
  template <class Life>
  explicit forked_peer(Life&& life) {
    int ends[2] = {};
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("no fork");
    if (pid_ == 0) {
      try {
        std::forward<Life>(life)(teller(ends[1]));
        ::_exit(0);
      } catch (const std::exception&) {
        ::_exit(1);
      }
    }
    ::close(ends[1]);
    told_ = ends[0];
  }
  forked_peer(const forked_peer&) = delete;
  forked_peer& operator=(const forked_peer&) = delete;
  ~forked_peer() {
    ::close(told_);
    if (pid_ > 0) end();
  }

  /// What the child tells next; throws if it has died instead.
  template <class T>
  [[nodiscard]] T receive() const {
    T value{};
    if (::read(told_, &value, sizeof value) != sizeof value)
      throw std::runtime_error("the peer has told nothing");
    return value;
  }

  /// Waits until it has stopped itself with SIGSTOP.
  void wait_until_stopped() const {
    int status = 0;
    if (::waitpid(pid_, &status, WUNTRACED) != pid_ || !WIFSTOPPED(status))
      throw std::runtime_error("the peer has not stopped");
  }
  void resume() const { ::kill(pid_, SIGCONT); }
  void end() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// Its exit status as waitpid(2) has it.
  int wait() {
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = -1;
  int told_ = -1;
};

/// A suite that has forked peers.
class with_forked_peers : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer allows no thread in a child of a process with threads";
#endif
  }
};

}  // namespace softverbs::device_tests
