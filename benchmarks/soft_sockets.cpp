// What plain sockets reach over the loopback interface: a peer of `./bench soft`.
//
//   soft_sockets tcp|udp latency|stream <bytes> <messages> processes|threads
//
// latency: a message goes back and forth; both sides poll, like the programs it is compared with.
// stream: one side writes, the other reads, and both block. Datagrams have up to 32 KiB; those that
// the receiver loses are neither retransmitted nor counted.

#include <cerrno>
#include <cstddef>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "timing.hpp"

namespace {

using namespace benchmark_timing;

constexpr std::size_t largest_datagram = 32U << 10;
constexpr timeval silence_ends_a_stream{.tv_sec = 0, .tv_usec = 50'000};
constexpr auto patience = std::chrono::seconds(10);

struct options {
  bool datagrams;
  bool latency;
  std::size_t bytes;
  int messages;
  bool threads;
};

struct connection {
  int here;
  int there;
};

sockaddr_in loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int bound(int type) {
  const int made = socket(AF_INET, type, 0);
  need(made >= 0, "socket");
  const auto address = loopback();
  need(bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "bind");
  return made;
}

void connect_to(int from, int to) {
  auto address = loopback();
  socklen_t length = sizeof address;
  need(getsockname(to, reinterpret_cast<sockaddr*>(&address), &length) == 0, "getsockname");
  need(connect(from, reinterpret_cast<const sockaddr*>(&address), length) == 0, "connect");
}

void set(int socket, int level, int name, int value) {
  need(setsockopt(socket, level, name, &value, sizeof value) == 0, "setsockopt");
}

connection connect_datagrams() {
  const connection made{.here = bound(SOCK_DGRAM), .there = bound(SOCK_DGRAM)};
  connect_to(made.here, made.there);
  connect_to(made.there, made.here);
  set(made.there, SOL_SOCKET, SO_RCVBUF, 4 << 20);
  need(setsockopt(made.there, SOL_SOCKET, SO_RCVTIMEO, &silence_ends_a_stream,
                  sizeof silence_ends_a_stream) == 0,
       "setsockopt");
  return made;
}

connection connect_streams() {
  const int listener = bound(SOCK_STREAM);
  need(listen(listener, 1) == 0, "listen");
  const int here = bound(SOCK_STREAM);
  connect_to(here, listener);
  const int there = accept(listener, nullptr, nullptr);
  need(there >= 0, "accept");
  close(listener);
  for (const int end : {here, there}) set(end, IPPROTO_TCP, TCP_NODELAY, 1);
  return {.here = here, .there = there};
}

void send_all(int socket, std::span<std::byte> message) {
  while (!message.empty()) {
    const auto sent = send(socket, message.data(), message.size(), 0);
    need(sent > 0, "send");
    message = message.subspan(static_cast<std::size_t>(sent));
  }
}

void receive_polling(int socket, std::span<std::byte> message) {
  const auto deadline = clock::now() + patience;
  while (!message.empty()) {
    const auto received = recv(socket, message.data(), message.size(), MSG_DONTWAIT);
    if (received > 0) {
      message = message.subspan(static_cast<std::size_t>(received));
    } else {
      need(received < 0 && errno == EAGAIN && clock::now() < deadline, "recv");
    }
  }
}

void ask(int socket, const options& wanted) {
  std::vector<std::byte> message(wanted.bytes);
  round_trips measured(wanted.messages);
  for (int i = 0; i < wanted.messages; ++i) {
    measured.time([&] {
      send_all(socket, message);
      receive_polling(socket, message);
    });
  }
  measured.print();
}

void answer(int socket, const options& wanted) {
  std::vector<std::byte> message(wanted.bytes);
  for (int i = 0; i < wanted.messages; ++i) {
    receive_polling(socket, message);
    send_all(socket, message);
  }
}

void write_stream(int socket, const options& wanted) {
  std::vector<std::byte> message(wanted.bytes);
  const auto piece = wanted.datagrams ? std::min(wanted.bytes, largest_datagram) : wanted.bytes;
  for (int i = 0; i < wanted.messages; ++i) {
    for (std::size_t at = 0; at < wanted.bytes; at += piece) {
      send_all(socket, std::span(message).subspan(at, std::min(piece, wanted.bytes - at)));
    }
  }
}

void read_stream(int socket, const options& wanted) {
  std::vector<std::byte> message(wanted.bytes);
  const double expected = static_cast<double>(wanted.bytes) * wanted.messages;
  double bytes = 0;
  clock::time_point first;
  clock::time_point last;
  while (bytes < expected) {
    const auto received = recv(socket, message.data(), message.size(), 0);
    if (received < 0 && wanted.datagrams && errno == EAGAIN) {
      if (bytes == 0) continue;
      break;
    }
    need(received > 0, "recv");
    last = clock::now();
    if (bytes == 0) first = last;
    bytes += static_cast<double>(received);
  }
  print_bandwidth(bytes, last - first);
}

void run_here(int socket, const options& wanted) {
  wanted.latency ? answer(socket, wanted) : write_stream(socket, wanted);
}

void run_there(int socket, const options& wanted) {
  wanted.latency ? ask(socket, wanted) : read_stream(socket, wanted);
}

int run(const options& wanted) {
  const auto sockets = wanted.datagrams ? connect_datagrams() : connect_streams();
  if (wanted.threads) {
    const std::jthread other([&] { run_here(sockets.here, wanted); });
    run_there(sockets.there, wanted);
    return 0;
  }
  const auto other = fork();
  need(other >= 0, "fork");
  if (other == 0) {
    run_here(sockets.here, wanted);
    return 0;
  }
  run_there(sockets.there, wanted);
  int status = 0;
  need(waitpid(other, &status, 0) == other, "waitpid");
  return status == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** values) {
  const std::span words(values, static_cast<std::size_t>(count));
  if (words.size() != 6) {
    std::fputs("usage: soft_sockets tcp|udp latency|stream <bytes> <messages> processes|threads\n",
               stderr);
    return 2;
  }
  return run({.datagrams = words[1] == std::string_view("udp"),
              .latency = words[2] == std::string_view("latency"),
              .bytes = std::strtoul(words[3], nullptr, 10),
              .messages = static_cast<int>(std::strtol(words[4], nullptr, 10)),
              .threads = words[5] == std::string_view("threads")});
}
