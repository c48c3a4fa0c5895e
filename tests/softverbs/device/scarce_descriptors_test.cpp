// A process without a free descriptor: its connection manager is not busy with those whom it cannot
// let in, and whoever asks again when there are descriptors is let in.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cm_sides.hpp"
#include "forked_peer.hpp"

namespace softverbs::device_tests {
namespace {

using namespace std::chrono_literals;

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

/// In the child: accepts two connections, and has no descriptor for a while between them.
void serve(const forked_peer::teller& parent) {
  cm_listener listening;
  parent.tell(listening.port());
  listening.accept();
  const auto before = forbid_descriptors();
  parent.tell(true);
  const auto spent = processor_time();
  std::this_thread::sleep_for(500ms);
  parent.tell(processor_time() - spent);
  ::setrlimit(RLIMIT_NOFILE, &before);
  listening.accept();
  for (;;) ::pause();
}

class client : public cm_client {
 public:
  explicit client(std::uint16_t port) : cm_client(port) {
    wait_for_answer();
    establish();
  }
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
