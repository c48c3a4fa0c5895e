// The messages of the connection manager, on those that the kernel's was recorded with.

#include <wire/cm_message.hpp>

#include <algorithm>
#include <map>

#include <gtest/gtest.h>
#include <wire/packet.hpp>

#include "pcap_file.hpp"

namespace softverbs::wire {

namespace {

class recorded_connections : public recorded_traffic {
 protected:
  static std::vector<std::vector<std::byte>> datagrams() {
    std::vector<std::vector<std::byte>> found;
    for (const auto& recorded : packets()) {
      const auto bytes = recorded.datagram();
      const auto decoded = decode(bytes);
      if (!decoded || decoded->header.destination_qpn != management_qpn) continue;
      EXPECT_EQ(decoded->header.qkey, management_qkey);
      EXPECT_EQ(decoded->header.source_qpn, management_qpn);
      found.emplace_back(decoded->payload.begin(), decoded->payload.end());
    }
    return found;
  }
};

TEST_P(recorded_connections, are_understood_and_written_as_they_came) {
  const auto all = datagrams();
  ASSERT_FALSE(all.empty());
  for (auto datagram : all) {
    const auto message = decode_cm(datagram);
    ASSERT_TRUE(message.has_value());
    SCOPED_TRACE(static_cast<int>(message->kind));
    // The kernel leaves something in the reserved bits behind the flow label.
    if (message->kind == cm_kind::req) {
      datagram[24 + 90] &= std::byte{0xf0};
      datagram[24 + 91] &= std::byte{0x3f};
    }
    EXPECT_TRUE(std::ranges::equal(encode(*message), datagram));
  }
}

INSTANTIATE_TEST_SUITE_P(all, recorded_connections,
                         testing::Values("cm_rping", "cm_ucmatose", "cm_refused", "cm_ud_sidr"));

TEST(cm_message, fields_come_back_in_every_kind) {
  for (const auto kind : {cm_kind::req, cm_kind::mra, cm_kind::rej, cm_kind::rep, cm_kind::rtu,
                          cm_kind::dreq, cm_kind::drep, cm_kind::sidr_req, cm_kind::sidr_rep}) {
    SCOPED_TRACE(static_cast<int>(kind));
    cm_message message{.kind = kind, .transaction = 0x0123456789abcdef, .local_id = 0xfedcba98};
    std::ranges::fill_n(message.private_data.begin(),
                        static_cast<std::ptrdiff_t>(private_bytes(kind)), std::byte{0xa5});
    const auto back = decode_cm(encode(message));
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->transaction, message.transaction);
    EXPECT_EQ(back->local_id, message.local_id);
    EXPECT_EQ(back->private_data, message.private_data);
  }
}

TEST(cm_message, what_is_none_is_refused) {
  const auto good = encode({.kind = cm_kind::rep});
  EXPECT_TRUE(decode_cm(good).has_value());
  EXPECT_FALSE(decode_cm(std::span(good).first(mad_bytes - 1)).has_value()) << "too short";
  for (const std::size_t place : {0U, 1U, 2U, 3U, 17U}) {
    SCOPED_TRACE(place);
    auto bad = good;
    bad[place] ^= std::byte{0x40};
    EXPECT_FALSE(decode_cm(bad).has_value());
  }
}

}  // namespace
}  // namespace softverbs::wire
