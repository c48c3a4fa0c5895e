// Something that each process has one of. A child of a fork begins with a new one: the parent's may
// be locked by a thread that the child does not have. What has been made is never destroyed,
// because threads may use it until the very end.
#pragma once

#include <atomic>

#include <engine/fork_registry.hpp>

namespace softverbs::engine {

template <class T>
class per_process {
 public:
  [[nodiscard]] T& get() {
    auto* now = current_.load(std::memory_order_acquire);
    while (now == nullptr || now->generation != process_generation()) {
      auto* const made = new entry;
      if (current_.compare_exchange_strong(now, made, std::memory_order_acq_rel))
        return made->value;
      delete made;  // another thread was faster
    }
    return now->value;
  }

 private:
  struct entry {
    unsigned generation = process_generation();
    T value{};
  };
  std::atomic<entry*> current_ = nullptr;
};

}  // namespace softverbs::engine
