// Zero-based regions: the device counts from the region's start, and so do elements and peers.

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"
#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

namespace {

TEST(zero_based_regions, are_read_and_written_by_the_device_where_the_program_says) {
  RDMAXX_NEEDS(capability::zero_based_regions);
  const connected_pair pair;
  std::vector<std::byte> from(4096);
  std::vector<std::byte> into(4096);
  constexpr auto rights = access::zero_based | access::remote_read | access::remote_write;
  const auto source = pair.a.pd.register_shared(unsafe, from, rights).value();
  const auto target = pair.b.pd.register_shared(unsafe, into, rights).value();
  fill_pattern(from, 3);

  pair.b.qp.post(recv_wr{.into = target.scatter(std::span(into).subspan(256, 1000))}).value();
  pair.a.qp.post(send_wr{.from = source.gather(std::span(from).subspan(64, 1000))}).value();

  wait_for_success(pair.b.recv_cq);
  wait_for_success(pair.a.send_cq);
  EXPECT_TRUE(all_zero(std::span(into).first(256)));
  EXPECT_TRUE(same_bytes(std::span(into).subspan(256, 1000), std::span(from).subspan(64, 1000)));
  EXPECT_TRUE(all_zero(std::span(into).subspan(1256)));
}

TEST(zero_based_regions, are_reached_by_a_peer_from_zero_on) {
  RDMAXX_NEEDS(capability::zero_based_regions);
  const connected_pair pair;
  std::vector<std::byte> there(4096);
  const auto target =
      pair.b.pd.register_shared(unsafe, there, access::zero_based | access::remote_write).value();
  const auto from = pair.a.local_memory(100);
  fill_pattern(from.bytes(), 4);
  EXPECT_EQ(target.remote(2000).address, 2000U);

  pair.b.qp.post(recv_wr{}).value();
  pair.a.qp.post(write_wr{.from = from.gather(), .to = target.remote(2000)}).value();
  pair.a.qp.post(send_wr{}).value();

  wait_for_successes(pair.a.send_cq, 2);
  wait_for_success(pair.b.recv_cq);
  EXPECT_TRUE(same_bytes(std::span(there).subspan(2000, 100), from.bytes()));
}

}  // namespace

}  // namespace rdmaxx::device_tests
