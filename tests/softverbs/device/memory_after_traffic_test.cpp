// What a queue pair keeps of the memory that its traffic needed.

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <malloc.h>

#include "connected_pair.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool heap_can_be_measured = false;
#else
constexpr bool heap_can_be_measured = true;
#endif

constexpr std::size_t pairs = 16;
constexpr std::size_t bytes = std::size_t{4} << 20;
constexpr std::size_t requests = 16;
// For each queue pair, after any traffic: a burst needs a megabyte and more.
constexpr std::size_t most_kept = std::size_t{64} << 10;

/// What is allocated, however much of it the allocator has taken from the kernel.
std::size_t heap_bytes() {
  const auto now = ::mallinfo2();
  return now.uordblks + now.hblkhd;
}

TEST(memory_after_traffic, an_idle_queue_pair_gives_back_what_bursts_needed) {
  if (!heap_can_be_measured) GTEST_SKIP() << "a sanitizer has a heap of its own";
  const auto context = open_device();
  std::vector<std::unique_ptr<connected_pair>> all;
  for (std::size_t i = 0; i < pairs; ++i)
    all.push_back(std::make_unique<connected_pair>(context.get()));
  std::vector<std::unique_ptr<buffer>> memory;
  for (const auto& each : all) {
    memory.push_back(std::make_unique<buffer>(each->a.domain(), bytes));
    memory.push_back(std::make_unique<buffer>(each->b.domain(), bytes));
  }
  const auto move_bytes = [&](std::size_t i) {
    auto& from = *memory[2 * i];
    auto& to = *memory[2 * i + 1];
    for (std::uint64_t id = 0; id < requests; ++id) {
      ASSERT_EQ(write(id, {from.sge()}, to.address(), to.rkey()).post(all[i]->a.qp.get()), 0);
    }
    wait_for_successes(all[i]->a.send_cq.get(), requests);
    ASSERT_EQ(read(1, {from.sge()}, to.address(), to.rkey()).post(all[i]->a.qp.get()), 0);
    wait_for_success(all[i]->a.send_cq.get());
  };
  // What the first use of a device allocates for everybody is not a queue pair's.
  move_bytes(0);
  const auto before = heap_bytes();

  for (std::size_t i = 1; i < pairs; ++i) move_bytes(i);

  const auto after = heap_bytes();
  const auto kept = after > before ? (after - before) / (2 * (pairs - 1)) : 0;
  std::cout << "[ MEASURED ] " << kept << " bytes are kept by a queue pair after "
            << (bytes * requests >> 20) << " MiB\n";
  EXPECT_LE(kept, most_kept);
}

}  // namespace
}  // namespace softverbs::device_tests
