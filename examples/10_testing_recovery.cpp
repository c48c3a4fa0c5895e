// 10: testing what a program does when RDMA fails, with no hardware and in milliseconds.
//
//   $ 10_testing_recovery
//
// The code under test is `journal`: it writes records into a replica's memory, and when a write
// fails it reconnects and writes again, at most three times. Three tests break the network, a
// registration and the peer. softverbs controls faults and time, so the tests run in any container,
// and the same way each time.

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <span>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <softverbs/faults.hpp>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;
using namespace std::chrono_literals;

namespace {

/// One end of a connection, with 64 bytes of memory that the other end may write.
struct end {
  explicit end(const context& ctx)
      : pd(ctx.alloc_pd().value()),
        cq(ctx.create_cq({.capacity = 8}).value()),
        qp(pd.create_qp({.type = qp_type::rc, .send_cq = cq, .recv_cq = cq}).value()),
        memory(pd.allocate_shared(unsafe, {.bytes = 64}, access::remote_write).value()) {}

  protection_domain pd;
  completion_queue cq;
  queue_pair qp;
  owned_region memory;
};

/// The code under test.
class journal {
 public:
  journal(end& own, end& replica) : own_(own), replica_(replica) { reconnect(); }

  result<void> append(std::string_view record) {
    std::ranges::copy(std::as_bytes(std::span(record)), own_.memory.bytes().begin());
    for (int attempt = 1;; ++attempt) {
      RDMAXX_TRY(
          own_.qp.post(write_wr{.from = own_.memory.gather(), .to = replica_.memory.remote()}));
      const auto completion = next_completion();
      if (completion) return {};
      if (attempt == 3) return completion.error().within("writing to the replica");
      reconnect();
    }
  }

  /// What the program does while it waits; a test advances the time here.
  std::function<void()> while_waiting = [] {};
  int connections = 0;

 private:
  void reconnect() {
    ++connections;
    for (auto* each : {&own_, &replica_}) each->qp.reset().value();
    const qp_connect_options options{.ack_timeout = 1s, .retry_count = 7};  // 8.6 s in total
    const auto own = own_.qp.endpoint().value();
    own_.qp.connect(replica_.qp.endpoint().value(), options).value();
    replica_.qp.connect(own, options).value();
  }

  work_completion next_completion() const {
    for (;;) {
      auto next = wait_completion(own_.cq, 1ms);
      if (next || next.error() != std::errc::timed_out) return std::move(next).value();
      while_waiting();
    }
  }

  end& own_;
  end& replica_;
};

void expect(bool condition, std::string_view what) {
  if (!condition) throw std::runtime_error(fmt::format("not as expected: {}", what));
  fmt::print("ok: {}\n", what);
}

bool arrived(const end& replica, std::string_view record) {
  return std::ranges::equal(replica.memory.bytes().first(record.size()),
                            std::as_bytes(std::span(record)));
}

void test_all(const context& ctx) {
  end own(ctx);
  end replica(ctx);
  journal writer(own, replica);
  {
    // The second write finds the connection broken.
    const auto plan = faults::inject({faults::break_queue_pair().nth(2)}).value();
    writer.append("one").value();
    writer.append("two").value();
    expect(arrived(replica, "two") && writer.connections == 2, "a broken connection is replaced");
  }
  {
    // The replica no longer answers. Each attempt takes more than eight seconds of virtual time,
    // but no real time.
    const auto plan = faults::inject({faults::lose().of(faults::packet::ack)}).value();
    faults::virtual_time time;
    writer.while_waiting = [&] { time.advance(100ms); };
    const auto failed = writer.append("three");
    expect(!failed && failed.error() == make_error_code(wc_status::retry_exceeded),
           "the writer gives up on a silent replica after three attempts");
    expect(writer.connections == 4, "each attempt had a connection of its own");
  }
  {
    const auto plan = faults::inject({faults::fail_with(ENOMEM).call("ibv_reg_mr").nth(1)}).value();
    const auto failed = own.pd.allocate_local({.bytes = 64});
    expect(!failed && failed.error() == std::errc::not_enough_memory,
           "a failed registration is reported");
  }
}

}  // namespace

int main() {
  try {
    test_all(open_device("soft0").value());
    return EXIT_SUCCESS;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "10_testing_recovery: {}\n", failure.what());
    return EXIT_FAILURE;
  }
}
