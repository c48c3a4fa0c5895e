// The contexts of this process by the file behind their cmd_fd, so that a duplicate of it can be
// imported. Each is counted: the last ibv_close_device of an opened or imported one ends it.
//
// Any thread may call any function. A child of a fork begins with none.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace softverbs::engine {

class device_context;

class opened_contexts {
 public:
  [[nodiscard]] static opened_contexts& of_process();

  /// A file that stands for the context; -1 with errno if there is none to be had.
  [[nodiscard]] int add(device_context& opened);
  /// Null if the file stands for none of them.
  [[nodiscard]] device_context* import(int file);
  /// True if it was the last one: the caller ends the context.
  [[nodiscard]] bool close(int file);

 private:
  using file_number = std::pair<std::uint64_t, std::uint64_t>;
  struct entry {
    device_context* context;
    unsigned opens;
  };

  [[nodiscard]] static file_number number_of(int file);

  std::mutex mutex_;
  std::map<file_number, entry> by_file_;
};

}  // namespace softverbs::engine
