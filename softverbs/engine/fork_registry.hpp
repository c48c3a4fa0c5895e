// What a fork does to this process: the child closes the parent's descriptors, which would keep
// the parent's ports bound and its connections alive. Everything else of the parent stays untouched
// in the child's copy of its memory, because a thread that the child does not have may hold the
// locks.
//
// Any thread may call any function. The registry's lock is a leaf, and every fork takes it.
#pragma once

namespace softverbs::engine {

/// Counts the forks between this process and the one that loaded the library: objects of another
/// generation belong to the parent.
[[nodiscard]] unsigned process_generation() noexcept;

/// Descriptors that a child of a fork must not keep; to be forgotten before they are closed.
void close_in_children(int fd);
void forget_descriptor(int fd);

/// Registers a descriptor that somebody else owns, and forgets it at its own end: declare it behind
/// the owner.
class closed_in_children {
 public:
  /// A negative one is none.
  explicit closed_in_children(int fd) : fd_(fd) {
    if (fd_ >= 0) close_in_children(fd_);
  }
  closed_in_children(const closed_in_children&) = delete;
  closed_in_children& operator=(const closed_in_children&) = delete;
  ~closed_in_children() {
    if (fd_ >= 0) forget_descriptor(fd_);
  }

 private:
  int fd_;
};

}  // namespace softverbs::engine
