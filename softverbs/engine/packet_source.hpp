// Something that packets come from, or news about such a thing: a socket, a listener, the other end
// of a packet ring. It is asked when its descriptor is ready.
//
// Sources are asked by one thread at a time, under the receiving lock (packet_receiver.hpp). A
// source lives until nobody can be about to ask it: until its descriptor is no longer watched, and
// to the end of the round of questions that is under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <engine/local_senders.hpp>
#include <net/udp_socket.hpp>

namespace softverbs::engine {

class packet_source;

/// What a receiving thread has at hand; guarded by the receiving lock.
struct receive_state {
  net::receive_buffers buffers;
  std::vector<std::byte> handoff_memory;
  local_senders neighbours;
  /// The source of the latest packets, where more are likely: asked without asking the kernel which
  /// sources are ready. A source that found packets may put itself here.
  packet_source* busiest = nullptr;
  /// A user's thread receives for itself, and not the progress thread.
  bool called_by_user = false;
};

class packet_source {
 public:
  packet_source() = default;
  packet_source(const packet_source&) = delete;
  packet_source& operator=(const packet_source&) = delete;
  virtual ~packet_source() = default;

  /// Never waits. `events` are those of epoll(7). True if there were packets.
  virtual bool receive(receive_state& state, std::uint32_t events) = 0;
};

/// Who asks sources when their descriptors are ready.
class source_watcher {
 public:
  /// Asks `source` whenever `fd` is ready. A descriptor that is watched already belongs to the new
  /// source from now on.
  virtual void add(int fd, packet_source& source, std::uint32_t events) = 0;
  /// Before the descriptor is closed: closing alone is not enough, because a child of a fork may
  /// hold a copy of it for a moment.
  virtual void remove(int fd) = 0;

 protected:
  ~source_watcher() = default;
};

}  // namespace softverbs::engine
