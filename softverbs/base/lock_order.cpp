#include <base/lock_order.hpp>

#include <cstdlib>

#include <base/log.hpp>
#include <fmt/format.h>

namespace softverbs {

const char* name_of(lock_rank rank) noexcept {
  switch (rank) {
    case lock_rank::virtual_time:
      return "virtual_time";
    case lock_rank::time_sources:
      return "time_sources";
    case lock_rank::receiving:
      return "receiving";
    case lock_rank::queue_pair:
      return "queue_pair";
    case lock_rank::srq_directory:
      return "srq_directory";
    case lock_rank::shared_receive:
      return "shared_receive";
    case lock_rank::memory:
      return "memory";
    case lock_rank::completions:
      return "completions";
    case lock_rank::ports:
      return "ports";
    case lock_rank::observers:
      return "observers";
    case lock_rank::outgoing_rings:
      return "outgoing_rings";
    case lock_rank::process_ports:
      return "process_ports";
    case lock_rank::numbers:
      return "numbers";
    case lock_rank::ring_writer:
      return "ring_writer";
    case lock_rank::timers:
      return "timers";
    case lock_rank::inbox:
      return "inbox";
    case lock_rank::descriptors:
      return "descriptors";
  }
  return "unknown";
}

held_locks& held_locks::of_thread() noexcept {
  static thread_local constinit held_locks held;
  return held;
}

void held_locks::check(lock_rank wanted) const noexcept {
  const auto held = obstacle_to(wanted);
  if (!held) return;
  write_log(
      log_level::error,
      fmt::format("lock order: the lock of rank '{}' is taken while one of rank '{}' is held; "
                  "see base/lock_order.hpp",
                  name_of(wanted), name_of(*held)));
  std::abort();
}

}  // namespace softverbs
