// Each test has a limit: one that hangs ends the program with its name and the stacks of all
// threads, so that the log shows where it hung.
//
// The limit is RDMAXX_TEST_LIMIT seconds; 120 if that is not set, and 300 where everything is slow:
// with a sanitizer and in the testbed's guest. The stacks are gdb's if it is there. Without it, the
// threads print their own when they get a signal, and those that take no signals are only named.

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <execinfo.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rdmaxx::device_tests {

namespace {

using std::chrono::steady_clock;

std::chrono::seconds limit() {
  if (const char* wanted = std::getenv("RDMAXX_TEST_LIMIT"))
    return std::chrono::seconds(std::strtol(wanted, nullptr, 10));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr bool is_slow = true;
#else
  const bool is_slow = std::getenv("RDMAXX_TESTBED") != nullptr;
#endif
  return std::chrono::seconds(is_slow ? 300 : 120);
}

const int print_stack_signal = SIGRTMIN + 5;

void print_own_stack(int) {
  std::array<void*, 64> frames{};
  const auto line = fmt::format("thread {}:\n", ::gettid());
  static_cast<void>(::write(STDERR_FILENO, line.data(), line.size()));
  ::backtrace_symbols_fd(frames.data(), ::backtrace(frames.data(), frames.size()), STDERR_FILENO);
}

bool gdb_prints_stacks() {
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  auto process = std::to_string(::getpid());
  // A gdb that hangs, too, is ended.
  std::array<std::string, 11> words{"timeout",
                                    "-k",
                                    "1",
                                    "60",
                                    "gdb",
                                    "-p",
                                    process,
                                    "-batch",
                                    "-nx",
                                    "-ex",
                                    "thread apply all backtrace"};
  std::array<char*, 12> arguments{};
  std::ranges::transform(words, arguments.begin(), [](auto& word) { return word.data(); });
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_t attributes;  // gdb needs the signals that this thread has blocked
  ::posix_spawnattr_init(&attributes);
  sigset_t none{};
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  const int failed =
      ::posix_spawnp(&child, "timeout", &actions, &attributes, arguments.data(), ::environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 1;
  return failed == 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

void threads_print_stacks() {
  struct sigaction action{};
  action.sa_handler = print_own_stack;
  action.sa_flags = SA_RESTART;
  ::sigaction(print_stack_signal, &action, nullptr);
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto id = std::stoi(task.path().filename());
    if (id == ::gettid()) continue;
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    fmt::print(stderr, "thread {} ({})\n", id, name);
    ::syscall(SYS_tgkill, ::getpid(), id, print_stack_signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // one after the other
  }
}

/// Without signals, which belong to the tests.
class watchdog : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo& test) override {
    if (!thread_.joinable()) start();
    const std::lock_guard lock(mutex_);
    running_ = fmt::format("{}.{}", test.test_suite_name(), test.name());
    deadline_ = steady_clock::now() + limit_;
    changed_.notify_one();
  }

  void OnTestEnd(const ::testing::TestInfo&) override {
    const std::lock_guard lock(mutex_);
    running_.clear();
  }

 private:
  void start() {
    sigset_t all{};
    sigset_t before{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::jthread([this](const std::stop_token& end) {
      started_.count_down();
      watch(end);
    });
    // A thread that starts holds locks of a sanitizer; a test that forks must not copy them.
    started_.wait();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void watch(const std::stop_token& end) {
    std::unique_lock lock(mutex_);
    while (!end.stop_requested()) {
      if (running_.empty()) {
        changed_.wait(lock, end, [this] { return !running_.empty(); });
      } else if (steady_clock::now() < deadline_) {
        // A copy: the next test moves the deadline while this thread waits with the old one.
        const auto deadline = deadline_;
        changed_.wait_until(lock, end, deadline, [this] { return running_.empty(); });
      } else {
        fmt::print(stderr, "{} has taken longer than {} s. The stacks of all threads:\n", running_,
                   limit_.count());
        std::fflush(stdout);
        if (!gdb_prints_stacks()) threads_print_stacks();
        fmt::print(stderr, "{} has hung\n", running_);
        std::abort();
      }
    }
  }

  const std::chrono::seconds limit_ = limit();
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::latch started_{1};
  std::string running_;
  steady_clock::time_point deadline_;
  std::jthread thread_;
};

[[maybe_unused]] const bool is_watched = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new watchdog);
  return true;
}();

}  // namespace

}  // namespace rdmaxx::device_tests
