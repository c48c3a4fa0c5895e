// The descriptors that packets and news about them come from, in one epoll: which of them are
// ready, and who is asked then.
//
// Owner: the packet_receiver. Sources are added, removed and paused by any thread; receive_ready()
// is called with the receiving lock held.
#pragma once

#include <chrono>
#include <cstdint>

#include <engine/packet_source.hpp>
#include <engine/private_descriptor.hpp>
#include <engine/timer_queue.hpp>
#include <sys/epoll.h>

namespace softverbs::engine {

class packet_sources final : public source_watcher {
 public:
  explicit packet_sources(timer_queue& timers);
  packet_sources(const packet_sources&) = delete;
  packet_sources& operator=(const packet_sources&) = delete;

  /// Readable when a source is ready.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  void add(int fd, packet_source& source, std::uint32_t events) override;
  void remove(int fd) override;
  /// Leaves the descriptor alone for a while; then it is added again. Both live until then.
  void pause(int fd, packet_source& source, std::chrono::nanoseconds duration,
             std::uint32_t events);

  /// Asks the sources that are ready; true if one of them had packets.
  [[nodiscard]] bool receive_ready(receive_state& state) const;

 private:
  timer_queue& timers_;
  private_descriptor epoll_;
};

}  // namespace softverbs::engine
