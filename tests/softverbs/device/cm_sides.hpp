#pragma once

// cm_sides: the two ends of a connection by librdmacm, without queue pairs. Everything waits late
// and throws if it goes wrong.

#include <cstdint>

#include <rdma/rdma_cma.h>

namespace softverbs::device_tests {

/// The next event of the channel, acknowledged: its identifier. Another one throws.
rdma_cm_id* next_event(rdma_event_channel* events, rdma_cm_event_type wanted);

/// Listens on some port of 127.0.0.1.
class cm_listener {
 public:
  cm_listener();
  cm_listener(const cm_listener&) = delete;
  cm_listener& operator=(const cm_listener&) = delete;
  ~cm_listener();

  [[nodiscard]] std::uint16_t port() const;
  /// Answers the next request, which is not up yet.
  void answer();
  void accept();

 private:
  rdma_event_channel* events_;
  rdma_cm_id* id_ = nullptr;
};

/// Connects to a port of 127.0.0.1.
class cm_client {
 public:
  explicit cm_client(std::uint16_t port);
  cm_client(const cm_client&) = delete;
  cm_client& operator=(const cm_client&) = delete;
  ~cm_client();

  /// Waits until the other side has answered.
  void wait_for_answer() { next_event(events_, RDMA_CM_EVENT_CONNECT_RESPONSE); }
  void establish();
  /// Waits for the end of the other side.
  void wait_for_end() { next_event(events_, RDMA_CM_EVENT_DISCONNECTED); }

 private:
  rdma_event_channel* events_;
  rdma_cm_id* id_ = nullptr;
};

}  // namespace softverbs::device_tests
