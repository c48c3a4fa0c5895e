#include <engine/fork_registry.hpp>

#include <atomic>
#include <mutex>
#include <vector>

#include <base/lock_order.hpp>
#include <engine/clock.hpp>
#include <pthread.h>
#include <unistd.h>

namespace softverbs::engine {
namespace {

struct descriptor_list {
  ranked_mutex<lock_rank::descriptors> mutex;
  std::vector<int> to_close;
};

std::atomic<unsigned> generation = 0;
descriptor_list* descriptors = nullptr;  // never destroyed: threads may run until the very end

void in_child() {
  for (const int fd : descriptors->to_close) ::close(fd);
  // The parent's list stays as it is: its lock is held for ever in this copy.
  descriptors = new descriptor_list;
  held_locks::of_thread().clear();
  clock::start_anew();
  generation.fetch_add(1);
}

descriptor_list& of_process() {
  static const bool once = [] {
    descriptors = new descriptor_list;
    ::pthread_atfork([] { descriptors->mutex.lock(); }, [] { descriptors->mutex.unlock(); },
                     in_child);
    return true;
  }();
  static_cast<void>(once);
  return *descriptors;
}

}  // namespace

unsigned process_generation() noexcept { return generation.load(std::memory_order_relaxed); }

void close_in_children(int fd) {
  auto& list = of_process();
  const std::lock_guard lock(list.mutex);
  list.to_close.push_back(fd);
}

void forget_descriptor(int fd) {
  auto& list = of_process();
  const std::lock_guard lock(list.mutex);
  std::erase(list.to_close, fd);
}

}  // namespace softverbs::engine
