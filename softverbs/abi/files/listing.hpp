// A directory of the tree while a program reads it: what its DIR* points to.
//
// The names are those of the moment when it was opened or rewound: the kernel's, where it has the
// directory, too, and ours.
//
// Owner: the program, from opendir to closedir. As with every DIR, one thread at a time uses it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <abi/files/lookup.hpp>
#include <base/descriptor.hpp>
#include <dirent.h>

namespace softverbs::abi::file_access {

/// The kernel's entries and ours, with the two dots.
[[nodiscard]] std::vector<dirent> entries_of(const tree_file& file);

class listing {
 public:
  listing(descriptor fd, const tree_file& file)
      : fd_(std::move(fd)), path_(file.path), entries_(entries_of(file)) {}

  /// The listing behind a DIR*; null for those of the C library.
  [[nodiscard]] static listing* of(DIR* directory) noexcept;
  /// Hands it to a program.
  [[nodiscard]] static DIR* release(std::unique_ptr<listing> made);
  /// Takes it back.
  [[nodiscard]] static std::unique_ptr<listing> take(DIR* directory) noexcept;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Null at the end.
  [[nodiscard]] dirent* next() noexcept {
    return position_ < entries_.size() ? &entries_[position_++] : nullptr;
  }
  [[nodiscard]] std::size_t position() const noexcept { return position_; }
  void move_to(std::size_t position) noexcept { position_ = position; }
  void rewind();

 private:
  descriptor fd_;
  std::string path_;
  std::vector<dirent> entries_;
  std::size_t position_ = 0;
};

}  // namespace softverbs::abi::file_access
