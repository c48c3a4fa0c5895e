// A process without a free descriptor: its connection manager is not busy with those whom it cannot
// let in, and whoever asks again when there are descriptors is let in.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "forked_peer.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {
namespace {

using namespace std::chrono_literals;

/// The next event of that kind, acknowledged; ends the process if there is none.
rdma_cm_id* next_event(rdma_event_channel* events, rdma_cm_event_type wanted) {
  wait_until_readable(events->fd);
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(events, &event) != 0) throw std::runtime_error("no event");
  auto* const id = event->id;
  const auto what = event->event;
  rdma_ack_cm_event(event);
  if (what != wanted)
    throw std::runtime_error(std::string("instead of it: ") + rdma_event_str(what));
  return id;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return name;
}

/// From now on no descriptor can be had.
rlimit forbid_descriptors() {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int lowest = ::dup(STDIN_FILENO);
  ::close(lowest);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest);
  ::setrlimit(RLIMIT_NOFILE, &none);
  return before;
}

std::chrono::nanoseconds processor_time() {
  timespec spent{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
}

void accept_next(rdma_event_channel* events) {
  auto* const asked = next_event(events, RDMA_CM_EVENT_CONNECT_REQUEST);
  rdma_conn_param terms{};
  terms.qp_num = 0x123456;
  if (rdma_accept(asked, &terms) != 0) throw std::runtime_error("not accepted");
  next_event(events, RDMA_CM_EVENT_ESTABLISHED);
}

/// In the child: accepts two connections, and has no descriptor for a while between them.
void serve(const forked_peer::teller& parent) {
  auto* const events = rdma_create_event_channel();
  rdma_cm_id* listener = nullptr;
  auto own = loopback(0);
  if (events == nullptr || rdma_create_id(events, &listener, nullptr, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&own)) != 0 ||
      rdma_listen(listener, 4) != 0)
    throw std::runtime_error("not listening");
  parent.tell(ntohs(rdma_get_src_port(listener)));
  accept_next(events);
  const auto before = forbid_descriptors();
  parent.tell(true);
  const auto spent = processor_time();
  std::this_thread::sleep_for(500ms);
  parent.tell(processor_time() - spent);
  ::setrlimit(RLIMIT_NOFILE, &before);
  accept_next(events);
  for (;;) ::pause();
}

class client {
 public:
  explicit client(std::uint16_t port) {
    auto peer = loopback(port);
    rdma_conn_param terms{};
    terms.qp_num = 0x123457;
    if (rdma_create_id(events_, &id_, nullptr, RDMA_PS_TCP) != 0 ||
        rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&peer), 1000) != 0)
      throw std::runtime_error("no way");
    next_event(events_, RDMA_CM_EVENT_ADDR_RESOLVED);
    if (rdma_resolve_route(id_, 1000) != 0) throw std::runtime_error("no route");
    next_event(events_, RDMA_CM_EVENT_ROUTE_RESOLVED);
    if (rdma_connect(id_, &terms) != 0) throw std::runtime_error("not asked");
    next_event(events_, RDMA_CM_EVENT_CONNECT_RESPONSE);
    if (rdma_establish(id_) != 0) throw std::runtime_error("not established");
  }
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  ~client() {
    rdma_destroy_id(id_);
    rdma_destroy_event_channel(events_);
  }

  /// Waits for the end of the other side.
  void wait_for_end() { next_event(events_, RDMA_CM_EVENT_DISCONNECTED); }

 private:
  rdma_event_channel* events_ = rdma_create_event_channel();
  rdma_cm_id* id_ = nullptr;
};

/// Connections to the sockets by which processes of this host see whether others live.
class visitor {
 public:
  visitor() {
    std::ifstream sockets("/proc/net/unix");
    for (std::string line; std::getline(sockets, line);) {
      const auto name = line.find("@softverbs/life/");
      if (name != std::string::npos) visit(line.substr(name + 1));
    }
  }
  visitor(const visitor&) = delete;
  visitor& operator=(const visitor&) = delete;
  ~visitor() {
    for (const int fd : visits_) ::close(fd);
  }

  [[nodiscard]] bool found_somebody() const { return !visits_.empty(); }

 private:
  void visit(const std::string& name) {
    sockaddr_un place{.sun_family = AF_UNIX, .sun_path = {}};
    name.copy(&place.sun_path[1], sizeof place.sun_path - 1);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&place), bytes) == 0) {
      visits_.push_back(fd);
    } else {
      ::close(fd);
    }
  }

  std::vector<int> visits_;
};

class scarce_descriptors : public with_forked_peers {};

TEST_F(scarce_descriptors, keep_nobody_busy_and_only_delay_who_asks) {
  forked_peer server(serve);
  const auto port = server.receive<std::uint16_t>();
  client first(port);
  ASSERT_TRUE(server.receive<bool>());
  const visitor at_the_door;
  ASSERT_TRUE(at_the_door.found_somebody());
  client second(port);
  EXPECT_LT(server.receive<std::chrono::nanoseconds>(), 50ms) << "of half a second";
  server.end();
  first.wait_for_end();
  second.wait_for_end();
}

}  // namespace
}  // namespace softverbs::device_tests
