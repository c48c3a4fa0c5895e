// A peer that greets like a stream and then violates the protocol: an error that says so, no crash,
// and the reader's memory is not touched.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "cm_conversation.hpp"
#include "completion_waiter.hpp"
#include "hand_made_peer.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace stream_protocol;

struct violation {
  std::string name;
  void (*tell)(hand_made_peer&);
};

void PrintTo(const violation& which, std::ostream* out) { *out << which.name; }

class stream_violations : public ::testing::TestWithParam<violation> {};

TEST_P(stream_violations, end_in_an_error_of_category_peer) {
  const auto waiting = stream_listener::listen(own_address(), {.read_timeout = patience}).value();
  auto accepting = std::async(std::launch::async, [&] { return waiting.accept(patience); });
  hand_made_peer peer(waiting.local_address());
  auto accepted = accepting.get();
  ASSERT_TRUE(accepted.has_value()) << accepted.error();
  stream& server = *accepted;

  // The stream works: valid data arrives.
  std::vector<std::byte> valid(100);
  fill_pattern(valid, 5);
  peer.send(peer.header(100), valid);
  std::vector<std::byte> got(valid.size());
  server.read_exactly(got).value();
  EXPECT_TRUE(same_bytes(got, valid));

  std::vector<std::byte> untouched(8192);
  fill_pattern(untouched, 6);
  auto read_into = untouched;
  GetParam().tell(peer);
  const auto failed = server.read(read_into);

  ASSERT_FALSE(failed.has_value()) << "read " << *failed << " bytes";
  EXPECT_EQ(failed.error(), std::errc::protocol_error) << failed.error();
  EXPECT_EQ(failed.error().category(), error_category::peer) << failed.error();
  EXPECT_TRUE(same_bytes(read_into, untouched));
  EXPECT_FALSE(server.read(read_into).has_value()) << "the stream has failed for good";
  EXPECT_FALSE(server.write_all(got).has_value());
}

const std::array<std::byte, 64> some_bytes{};

INSTANTIATE_TEST_SUITE_P(
    all, stream_violations,
    ::testing::Values(
        violation{"nothing_at_all", [](hand_made_peer& peer) { peer.send_raw({}); }},
        violation{"half_a_header",
                  [](hand_made_peer& peer) { peer.send_raw(std::span(some_bytes).first(8)); }},
        violation{"more_than_was_sent",
                  [](hand_made_peer& peer) { peer.send(peer.header(1000), some_bytes); }},
        violation{"less_than_was_sent",
                  [](hand_made_peer& peer) { peer.send(peer.header(1), some_bytes); }},
        violation{"four_gigabytes",
                  [](hand_made_peer& peer) { peer.send(peer.header(0xffffffff), some_bytes); }},
        violation{"a_frame_left_out",
                  [](hand_made_peer& peer) {
                    auto header = peer.header(64);
                    ++header.sequence;
                    peer.send(header, some_bytes);
                  }},
        violation{"a_frame_told_twice",
                  [](hand_made_peer& peer) {
                    auto header = peer.header(64);
                    --header.sequence;
                    peer.send(header, some_bytes);
                  }},
        violation{"a_grant_taken_back",
                  [](hand_made_peer& peer) {
                    auto header = peer.header(64);
                    header.granted -= 4;
                    peer.send(header, some_bytes);
                  }},
        violation{"a_grant_without_end",
                  [](hand_made_peer& peer) {
                    auto header = peer.header(64);
                    header.granted += 0x40000000;
                    peer.send(header, some_bytes);
                  }},
        violation{"a_control_frame_acknowledged_that_nobody_sent",
                  [](hand_made_peer& peer) {
                    auto header = peer.header(64);
                    header.acknowledged = 1;
                    peer.send(header, some_bytes);
                  }},
        violation{"data_without_a_credit",
                  [](hand_made_peer& peer) {
                    for (std::uint32_t i = 0; i <= peer.credits(); ++i)
                      peer.send(peer.header(64), some_bytes);
                  }},
        violation{"an_unknown_kind",
                  [](hand_made_peer& peer) {
                    auto header = peer.header(64);
                    header.kind = frame_kind(77);
                    peer.send(header, some_bytes);
                  }},
        violation{"a_reset_without_a_reason",
                  [](hand_made_peer& peer) {
                    auto header = peer.header(0);
                    header.kind = frame_kind::reset;
                    peer.send(header, {});
                  }}),
    [](const auto& which) { return which.param.name; });

TEST(stream_end, data_after_it_is_an_error) {
  const auto waiting = stream_listener::listen(own_address(), {.read_timeout = patience}).value();
  auto accepting = std::async(std::launch::async, [&] { return waiting.accept(patience); });
  hand_made_peer peer(waiting.local_address());
  auto server = accepting.get().value();
  auto last = peer.header(64);
  last.fin = true;
  peer.send(last, some_bytes);
  peer.send(peer.header(64), some_bytes);

  std::array<std::byte, 64> got{};
  // Data before the violation may be read or lost; data after it is never read.
  std::size_t bytes = 0;
  for (;;) {
    const auto outcome = server.read(got);
    if (!outcome) {
      EXPECT_EQ(outcome.error().category(), error_category::peer) << outcome.error();
      break;
    }
    bytes += *outcome;
    if (*outcome == 0) {
      // The end was read before the violation arrived; then close() reports it.
      const auto closed = server.close(patience);
      EXPECT_FALSE(closed.has_value());
      break;
    }
  }
  EXPECT_LE(bytes, 64U);
}

}  // namespace

}  // namespace rdmaxx::device_tests
