#pragma once

// child_process: another program, and what it prints.

#include <string>
#include <vector>

#include <sys/types.h>

namespace rdmaxx::device_tests {

class child_process {
 public:
  /// Starts the program with its standard output and error in one pipe.
  explicit child_process(const std::vector<std::string>& command);
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  /// A child that was not waited for is killed.
  ~child_process();

  /// Reads until a whole line has been printed; throws if none arrives in time.
  [[nodiscard]] std::string line();
  /// Everything else that it prints, up to its end.
  [[nodiscard]] std::string output();
  /// SIGSTOP, for example: it hangs.
  void send_signal(int number) const;
  /// Its exit status; 128 plus the number of the signal that ended it.
  [[nodiscard]] int wait();

 private:
  /// Appends what is there; false at the end.
  bool read_more();

  pid_t pid_ = -1;
  int from_child_ = -1;
  std::string unread_;
};

}  // namespace rdmaxx::device_tests
