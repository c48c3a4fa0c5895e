// Two processes and a stream of bytes between them, for `./bench stream`: prints one line of JSON.
//
//   stream_exchange rdmaxx|rsocket|tcp latency|bandwidth <bytes> <messages> <address>
//   stream_exchange rdmaxx|rsocket|tcp idle <milliseconds> 1 <address>
//
// latency: a message goes back and forth. bandwidth: one side writes messages, the other reads them
// and confirms the last one, which stops the clock. idle: a read waits for a byte that arrives
// late; measures the processor time of the waiting process, in milliseconds per second, after a
// short warm-up wait, because first calls are expensive. Only the transport itself polls.
// STREAM_EXCHANGE_STATISTICS=1 also prints the statistics of an rdmaxx stream.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stream_transports.hpp"
#include "timing.hpp"

namespace {

using namespace benchmark_timing;
using namespace stream_transports;

enum class operation : std::uint8_t { latency, bandwidth, idle };

struct options {
  operation what;
  std::size_t bytes;  // of a message; of idle: milliseconds
  int messages;
  std::string address;
};

/// The first and the last byte of a message identify it, so that lost and duplicated bytes are
/// noticed.
class numbered_message {
 public:
  explicit numbered_message(std::size_t bytes) : bytes_(bytes) {}

  std::span<const std::byte> number(int which) {
    bytes_.back() = static_cast<std::byte>(~which);
    bytes_.front() = static_cast<std::byte>(which);
    return bytes_;
  }
  std::span<std::byte> to_fill() { return bytes_; }
  void expect(int which) const {
    const bool is_right = bytes_.front() == static_cast<std::byte>(which) &&
                          (bytes_.size() == 1 || bytes_.back() == static_cast<std::byte>(~which));
    if (is_right) return;
    std::fprintf(stderr, "message %d arrived with wrong bytes\n", which);
    std::exit(1);
  }

 private:
  std::vector<std::byte> bytes_;
};

template <class Stream>
void confirm(Stream& to) {
  const std::array done{std::byte{1}};
  to.write_all(done);
}

template <class Stream>
void await_confirmation(Stream& from) {
  std::array done{std::byte{0}};
  from.read_exactly(done);
}

// --- latency -------------------------------------------------------------------------------------

template <class Stream>
void ask(Stream& peer, const options& wanted) {
  numbered_message message(wanted.bytes);
  round_trips measured(wanted.messages);
  for (int i = 0; i < wanted.messages; ++i) {
    measured.time([&] {
      peer.write_all(message.number(i));
      peer.read_exactly(message.to_fill());
    });
    message.expect(i + 1);
  }
  measured.print();
}

template <class Stream>
void answer(Stream& peer, const options& wanted) {
  numbered_message message(wanted.bytes);
  for (int i = 0; i < wanted.messages; ++i) {
    peer.read_exactly(message.to_fill());
    message.expect(i);
    peer.write_all(message.number(i + 1));
  }
}

// --- bandwidth -----------------------------------------------------------------------------------

int warm_up(const options& wanted) { return wanted.messages / 10 + 1; }

template <class Stream>
void write_messages(Stream& peer, const options& wanted) {
  numbered_message message(wanted.bytes);
  const auto write = [&](int count) {
    for (int i = 0; i < count; ++i) peer.write_all(message.number(i));
    await_confirmation(peer);
  };
  write(warm_up(wanted));
  const auto start = clock::now();
  write(wanted.messages);
  print_bandwidth(static_cast<double>(wanted.bytes) * wanted.messages, clock::now() - start);
}

template <class Stream>
void read_messages(Stream& peer, const options& wanted) {
  numbered_message message(wanted.bytes);
  for (const int count : {warm_up(wanted), wanted.messages}) {
    for (int i = 0; i < count; ++i) {
      peer.read_exactly(message.to_fill());
      message.expect(i);
    }
    confirm(peer);
  }
}

// --- idle ----------------------------------------------------------------------------------------

std::chrono::microseconds processor_time() {
  rusage used{};
  need(getrusage(RUSAGE_SELF, &used) == 0, "getrusage");
  return std::chrono::seconds(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         std::chrono::microseconds(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

constexpr std::chrono::milliseconds short_wait{50};

template <class Stream>
void wait_idly(Stream& peer) {
  await_confirmation(peer);
  const auto start = clock::now();
  const auto used_before = processor_time();
  await_confirmation(peer);
  const std::chrono::duration<double, std::milli> used = processor_time() - used_before;
  const std::chrono::duration<double> taken = clock::now() - start;
  std::printf("{\"processor\": %.3f}\n", used.count() / taken.count());
}

template <class Stream>
void confirm_late(Stream& peer, const options& wanted) {
  std::this_thread::sleep_for(short_wait);
  confirm(peer);
  std::this_thread::sleep_for(std::chrono::milliseconds(wanted.bytes));
  confirm(peer);
}

// --- both sides ----------------------------------------------------------------------------------

template <class Stream>
void lead(Stream& peer, const options& wanted) {
  switch (wanted.what) {
    case operation::latency:
      return ask(peer, wanted);
    case operation::bandwidth:
      return write_messages(peer, wanted);
    case operation::idle:
      return wait_idly(peer);
  }
}

template <class Stream>
void follow(Stream& peer, const options& wanted) {
  switch (wanted.what) {
    case operation::latency:
      return answer(peer, wanted);
    case operation::bandwidth:
      return read_messages(peer, wanted);
    case operation::idle:
      return confirm_late(peer, wanted);
  }
}

template <class Stream>
void finish(Stream& peer, const char* side) {
  if (std::getenv("STREAM_EXCHANGE_STATISTICS") != nullptr)
    std::fprintf(stderr, "%s: %s\n", side, peer.statistics().c_str());
  std::fflush(stdout);
  peer.close();
}

/// No device is opened before the fork, because it would not survive it.
template <class Stream>
int run(const options& wanted) {
  std::array<int, 2> pipe_ends{};
  need(pipe(pipe_ends.data()) == 0, "pipe");
  const auto child = fork();
  need(child >= 0, "fork");
  std::uint16_t port = 0;
  if (child == 0) {
    const typename Stream::listener waiting(wanted.address);
    port = waiting.port();
    need(write(pipe_ends[1], &port, sizeof port) == sizeof port, "write");
    auto peer = waiting.accept();
    follow(peer, wanted);
    finish(peer, "follower");
    return 0;
  }
  close(pipe_ends[1]);
  need(read(pipe_ends[0], &port, sizeof port) == sizeof port, "the other side did not listen");
  auto peer = Stream::connect(wanted.address, port);
  lead(peer, wanted);
  finish(peer, "leader");
  int status = 0;
  need(waitpid(child, &status, 0) == child, "waitpid");
  return status == 0 ? 0 : 1;
}

int usage() {
  std::fputs(
      "usage: stream_exchange rdmaxx|rsocket|tcp latency|bandwidth <bytes> <messages> <address>\n"
      "       stream_exchange rdmaxx|rsocket|tcp idle <milliseconds> 1 <address>\n",
      stderr);
  return 2;
}

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string_view> words(values, values + count);
  if (words.size() != 6) return usage();
  auto what = operation::idle;
  if (words[2] == "latency") what = operation::latency;
  if (words[2] == "bandwidth") what = operation::bandwidth;
  const options wanted{.what = what,
                       .bytes = std::strtoul(values[3], nullptr, 10),
                       .messages = static_cast<int>(std::strtol(values[4], nullptr, 10)),
                       .address = values[5]};
  if (wanted.bytes == 0 || wanted.messages <= 0) return usage();
  if (words[1] == "rdmaxx") return run<rdmaxx_stream>(wanted);
  if (words[1] == "rsocket") return run<rsocket_stream>(wanted);
  if (words[1] == "tcp") return run<tcp_stream>(wanted);
  return usage();
}
