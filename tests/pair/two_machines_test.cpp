// Two machines: the same tests run on both, as `testbed/guest --pair` starts them, and meet over
// TCP.
//
// Machine a judges: after each test b tells it how b's half went. In the last test b asks for its
// own power to be cut, so b's result is never read.

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include <rdmaxx/rdmaxx.hpp>

#include "tcp_line.hpp"

namespace {

using namespace rdmaxx;
using namespace std::chrono_literals;

constexpr auto patience = 60s;
constexpr std::size_t region_bytes = std::size_t{1} << 20;
constexpr const char* tcp_port = "7471";

std::string setting(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes it
  if (value == nullptr) {
    throw std::runtime_error(std::string(name) +
                             " is not set: run this with `testbed/guest --pair`");
  }
  return value;
}

bool is_a() { return setting("RDMAXX_TESTBED_ROLE") == "a"; }

tcp_line meet() {
  if (is_a()) return tcp_line::accept_one(tcp_port, patience);
  const auto peer = setting("RDMAXX_TESTBED_PEER_RXE_ADDRESS");
  for (const auto deadline = std::chrono::steady_clock::now() + patience;;) {
    try {
      return tcp_line::connect_to(peer.c_str(), tcp_port, patience);
    } catch (const std::system_error&) {
      // Machine a does not listen yet.
      if (std::chrono::steady_clock::now() > deadline) throw;
      std::this_thread::yield();
    }
  }
}

struct introduction {
  std::array<std::byte, qp_endpoint::serialized_size> endpoint{};
  remote_address memory{};
};

struct two_machines : testing::Test {
  void SetUp() override {
    line.emplace(meet());
    const auto peer = line->exchange(
        introduction{.endpoint = qp.endpoint().value().to_bytes(), .memory = shared.remote()});
    peer_memory = peer.memory;
    qp.connect(qp_endpoint::from_bytes(peer.endpoint).value(),
               {.ack_timeout = rdmaxx::ack_timeout::from_exponent(14), .retry_count = retries})
        .value();
    line->exchange('c');
  }

  void TearDown() override {
    if (!line) return;
    const bool peer_failed = line->exchange(HasFailure());
    EXPECT_FALSE(peer_failed) << "the other machine's half of the test failed";
  }

  work_completion completion() const {
    std::array<work_completion, 1> one;
    for (const auto deadline = std::chrono::steady_clock::now() + patience;;) {
      for (const auto& found : cq.poll(one).value()) return found;
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("no completion");
    }
  }

  void fill(unsigned seed) {
    for (std::size_t i = 0; i < region_bytes; ++i) {
      local.bytes()[i] = static_cast<std::byte>((i * 31 + seed) >> 3);
    }
  }
  static bool holds(std::span<const std::byte> bytes, unsigned seed) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] != static_cast<std::byte>((i * 31 + seed) >> 3)) return false;
    }
    return true;
  }

  static constexpr std::uint8_t retries = 3;

  context ctx = open_device("rxe0").value();
  protection_domain pd = ctx.alloc_pd().value();
  completion_queue cq = ctx.create_cq({.capacity = 64}).value();
  queue_pair qp = pd.create_qp({.send_cq = cq, .recv_cq = cq}).value();
  owned_region local = pd.allocate_local({.bytes = region_bytes}).value();
  owned_region shared =
      pd.allocate_shared(unsafe, {.bytes = region_bytes},
                         access::remote_write | access::remote_read | access::remote_atomic)
          .value();
  remote_address peer_memory;
  std::optional<tcp_line> line;
};

TEST_F(two_machines, a_written_megabyte_arrives_and_is_read_back) {
  const unsigned mine = is_a() ? 1 : 2;
  const unsigned theirs = 3 - mine;
  fill(mine);
  qp.post(write_wr{.from = local.gather(), .to = peer_memory}).value();
  const auto written = completion();
  ASSERT_TRUE(written) << written.error();
  line->exchange('w');
  EXPECT_TRUE(holds(shared.bytes(), theirs));

  fill(0);
  qp.post(read_wr{.from = peer_memory, .into = local.scatter()}).value();
  const auto read = completion();
  ASSERT_TRUE(read) << read.error();
  EXPECT_TRUE(holds(local.bytes(), mine));
  line->exchange('r');
}

TEST_F(two_machines, a_message_with_immediate_data_arrives) {
  qp.post(recv_wr{.id = wr_id{1}, .into = shared.scatter()}).value();
  line->exchange('p');
  fill(7);
  qp.post(send_wr{.id = wr_id{2}, .from = local.gather(local.bytes().first(9000)), .imm = 0xabcd})
      .value();
  for (int i = 0; i < 2; ++i) {
    const auto done = completion();
    ASSERT_TRUE(done) << done.error();
    if (done.id() == wr_id{1}) {
      EXPECT_EQ(done.byte_len(), 9000U);
      EXPECT_EQ(done.imm_data(), 0xabcdU);
      EXPECT_TRUE(holds(shared.bytes().first(9000), 7));
    }
  }
}

TEST_F(two_machines, additions_of_the_other_machine_are_all_counted) {
  constexpr std::uint64_t additions = 50;
  for (std::uint64_t i = 0; i < additions; ++i) {
    qp.post(faa_wr{.at = peer_memory, .add = 2, .into = local.scatter(local.bytes().first(8))})
        .value();
    const auto done = completion();
    ASSERT_TRUE(done) << done.error();
    std::uint64_t before = 0;
    std::memcpy(&before, local.data(), sizeof before);
    EXPECT_EQ(before, 2 * i);
  }
  line->exchange('d');
  std::uint64_t total = 0;
  std::memcpy(&total, shared.data(), sizeof total);
  EXPECT_EQ(total, 2 * additions);
}

/// Named so that it runs last.
using zz_death_of_a_machine = two_machines;

TEST_F(zz_death_of_a_machine, fails_the_send_with_retry_exceeded_and_flushes_the_rest) {
  if (!is_a()) {
    // The testbed cuts this machine's power when it sees the file; nothing after this happens.
    std::ofstream(setting("RDMAXX_TESTBED_SHARED") + "/kill-peer").put('!');
    line.reset();
    for (;;) ::pause();
  }
  // The TCP line breaks or falls silent; only the queue pair can tell. Write until it does.
  work_completion failure;
  for (const auto deadline = std::chrono::steady_clock::now() + patience;;) {
    qp.post(write_wr{
                .id = wr_id{1}, .from = local.gather(local.bytes().first(64)), .to = peer_memory})
        .value();
    failure = completion();
    if (!failure) break;
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the peer's death went unnoticed";
  }
  EXPECT_EQ(failure.status(), wc_status::retry_exceeded) << failure;
  EXPECT_EQ(failure.error().category(), error_category::peer);
  EXPECT_EQ(qp.state().value(), qp_state::error);

  int flushed = 0;
  for (unsigned i = 0; i < 8; ++i)
    qp.post(recv_wr{.id = wr_id(100 + i), .into = shared.scatter()}).value();
  qp.drain([&](const work_completion& left) {
      flushed += left.status() == wc_status::flushed ? 1 : 0;
    }).value();
  EXPECT_EQ(flushed, 8);
  line.reset();
}

}  // namespace
