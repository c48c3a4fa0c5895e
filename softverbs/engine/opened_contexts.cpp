#include <engine/opened_contexts.hpp>

#include <base/descriptor.hpp>
#include <engine/per_process.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace softverbs::engine {

opened_contexts& opened_contexts::of_process() {
  static per_process<opened_contexts> all;
  return all.get();
}

opened_contexts::file_number opened_contexts::number_of(int file) {
  struct stat found{};
  if (::fstat(file, &found) != 0) return {};
  return {found.st_dev, found.st_ino};
}

int opened_contexts::add(device_context& opened) {
  // Each memfd is a file of its own, unlike descriptors of events.
  descriptor file(::memfd_create("softverbs", MFD_CLOEXEC));
  if (!file) return -1;
  const std::lock_guard lock(mutex_);
  by_file_.insert_or_assign(number_of(file.get()), entry{.context = &opened, .opens = 1});
  return file.release();
}

device_context* opened_contexts::import(int file) {
  const std::lock_guard lock(mutex_);
  const auto found = by_file_.find(number_of(file));
  if (found == by_file_.end()) return nullptr;
  ++found->second.opens;
  return found->second.context;
}

bool opened_contexts::close(int file) {
  const std::lock_guard lock(mutex_);
  const auto found = by_file_.find(number_of(file));
  if (found == by_file_.end()) return true;
  if (--found->second.opens > 0) return false;
  by_file_.erase(found);
  return true;
}

}  // namespace softverbs::engine
