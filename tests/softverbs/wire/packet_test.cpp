#include <wire/packet.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pcap_file.hpp"
#include "recordings.hpp"

namespace {

using namespace softverbs::wire;
using enum operation;

constexpr std::array transports{transport::rc, transport::uc,  transport::rd,
                                transport::ud, transport::cnp, transport::xrc};

std::vector<std::byte> bytes(std::initializer_list<unsigned> values) {
  std::vector<std::byte> result;
  for (const unsigned value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

// Headers that differ from the defaults everywhere.
headers full_headers(transport service, operation op) {
  return {.service = service,
          .op = op,
          .solicited = true,
          .ack_request = true,
          .pad_bytes = 0,
          .pkey = 0x8001,
          .destination_qpn = 0xabcdef,
          .psn = 0xfedcba,
          .xrc_srqn = 0x123456,
          .qkey = 0x80010000,
          .source_qpn = 0x654321,
          .remote_address = 0x0123456789abcdef,
          .rkey = 0x11223344,
          .dma_length = 0x55667788,
          .swap_or_add = 0x1020304050607080,
          .compare = 0x8070605040302010,
          .syndrome = 0x61,
          .msn = 0xa1b2c3,
          .original = 0xfedcba9876543210,
          .immediate = 0xdeadbeef,
          .invalidate_rkey = 0x99aabbcc};
}

// Headers, payload, pad and an ICRC of zeros.
std::vector<std::byte> datagram_of(const headers& header, std::size_t payload_bytes = 0) {
  std::vector<std::byte> datagram(most_header_bytes);
  datagram.resize(encode(header, datagram.data()));
  datagram.resize(datagram.size() + payload_bytes, std::byte{0x5a});
  datagram.resize(datagram.size() + header.pad_bytes + icrc_bytes);
  return datagram;
}

TEST(opcodes, are_defined_as_in_the_specification) {
  const auto defined = [](transport service) {
    std::vector<unsigned> ops;
    for (unsigned op = 0; op < 32; ++op) {
      if (is_defined(service, static_cast<operation>(op))) ops.push_back(op);
    }
    return ops;
  };
  const std::vector<unsigned> reliable{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                       12, 13, 14, 15, 16, 17, 18, 19, 20, 22, 23};
  EXPECT_EQ(defined(transport::rc), reliable);
  EXPECT_EQ(defined(transport::xrc), reliable);
  // The acknowledge (17) is ours.
  EXPECT_THAT(defined(transport::uc),
              testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 17));
  EXPECT_THAT(defined(transport::ud), testing::ElementsAre(4, 5, 17));
  EXPECT_THAT(defined(transport::cnp), testing::ElementsAre(1));
  EXPECT_THAT(defined(transport::rd), testing::IsEmpty());
}

TEST(opcodes, determine_the_length_of_the_headers) {
  EXPECT_EQ(header_bytes(transport::rc, send_only), 12U);
  EXPECT_EQ(header_bytes(transport::rc, send_only_immediate), 16U);
  EXPECT_EQ(header_bytes(transport::rc, send_last_invalidate), 16U);
  EXPECT_EQ(header_bytes(transport::rc, write_only), 28U);
  EXPECT_EQ(header_bytes(transport::rc, write_only_immediate), 32U);
  EXPECT_EQ(header_bytes(transport::rc, write_last_immediate), 16U);
  EXPECT_EQ(header_bytes(transport::rc, read_request), 28U);
  EXPECT_EQ(header_bytes(transport::rc, read_response_first), 16U);
  EXPECT_EQ(header_bytes(transport::rc, read_response_middle), 12U);
  EXPECT_EQ(header_bytes(transport::rc, acknowledge), 16U);
  EXPECT_EQ(header_bytes(transport::rc, atomic_acknowledge), 24U);
  EXPECT_EQ(header_bytes(transport::rc, compare_swap), 40U);
  EXPECT_EQ(header_bytes(transport::uc, acknowledge), 16U);
  EXPECT_EQ(header_bytes(transport::ud, send_only), 20U);
  EXPECT_EQ(header_bytes(transport::ud, send_only_immediate), 24U);
  EXPECT_EQ(header_bytes(transport::ud, acknowledge), 24U);
  EXPECT_EQ(header_bytes(transport::xrc, send_middle), 16U);
  EXPECT_EQ(header_bytes(transport::xrc, read_response_only), 16U);
  EXPECT_EQ(header_bytes(transport::xrc, fetch_add), most_header_bytes);
  EXPECT_EQ(header_bytes(transport::cnp, send_middle), 28U);
  EXPECT_EQ(header_bytes(transport::uc, read_request), 0U);
}

TEST(encode, writes_the_base_transport_header) {
  const headers header{.service = transport::uc,
                       .op = send_middle,
                       .solicited = true,
                       .ack_request = true,
                       .pad_bytes = 3,
                       .pkey = 0x7fff,
                       .destination_qpn = 0x010203,
                       .psn = 0x040506};
  std::vector<std::byte> out(most_header_bytes);
  out.resize(encode(header, out.data()));
  EXPECT_EQ(out, bytes({0x21, 0xb0, 0x7f, 0xff, 0, 1, 2, 3, 0x80, 4, 5, 6}));
}

TEST(encode, writes_the_extended_headers_in_the_order_of_the_specification) {
  const headers header = full_headers(transport::xrc, write_only_immediate);
  std::vector<std::byte> out(most_header_bytes);
  out.resize(encode(header, out.data()));
  auto expected = bytes({0,    0x12, 0x34, 0x56,                          // XRCETH
                         0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,  // RETH
                         0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88});
  expected.resize(expected.size() + 4);
  std::memcpy(expected.data() + expected.size() - 4, &header.immediate, 4);
  EXPECT_THAT(std::span(out).subspan(bth_bytes), testing::ElementsAreArray(expected));
}

TEST(encode, does_not_let_a_wide_number_into_the_neighbouring_bits) {
  headers header = full_headers(transport::ud, acknowledge);
  header.destination_qpn = header.psn = header.source_qpn = header.msn = 0xffffffff;
  header.ack_request = false;
  const auto datagram = datagram_of(header);
  EXPECT_EQ(datagram[4], std::byte{0});
  EXPECT_EQ(datagram[8], std::byte{0});
  EXPECT_EQ(datagram[16], std::byte{0});
  EXPECT_EQ(datagram[20], std::byte{header.syndrome});
}

TEST(decode, gives_back_what_was_encoded) {
  for (const transport service : transports) {
    for (unsigned op = 0; op < 32; ++op) {
      if (!is_defined(service, static_cast<operation>(op))) continue;
      const headers header = full_headers(service, static_cast<operation>(op));
      const auto once = datagram_of(header);
      const std::optional<packet> decoded = decode(once);
      ASSERT_TRUE(decoded) << op;
      EXPECT_TRUE(decoded->payload.empty());
      EXPECT_EQ(once.size(), header_bytes(service, header.op) + icrc_bytes);
      EXPECT_EQ(decoded->header.psn, header.psn);
      // Fields of other headers are lost on the way: the second time, all must be equal.
      EXPECT_EQ(datagram_of(decoded->header), once) << op;
      EXPECT_EQ(decode(datagram_of(decoded->header))->header, decoded->header);
    }
  }
}

TEST(decode, reads_every_field) {
  const auto decoded_as = [](transport service, operation op) {
    return decode(datagram_of(full_headers(service, op)))->header;
  };
  const headers all = full_headers(transport::rc, send_only);

  const headers base = decoded_as(transport::rc, send_only);
  EXPECT_TRUE(base.solicited);
  EXPECT_TRUE(base.ack_request);
  EXPECT_EQ(base.pkey, all.pkey);
  EXPECT_EQ(base.destination_qpn, all.destination_qpn);
  EXPECT_EQ(base.psn, all.psn);
  const headers datagram = decoded_as(transport::ud, send_only_immediate);
  EXPECT_EQ(datagram.qkey, all.qkey);
  EXPECT_EQ(datagram.source_qpn, all.source_qpn);
  EXPECT_EQ(datagram.immediate, all.immediate);
  const headers write = decoded_as(transport::xrc, write_only);
  EXPECT_EQ(write.xrc_srqn, all.xrc_srqn);
  EXPECT_EQ(write.remote_address, all.remote_address);
  EXPECT_EQ(write.rkey, all.rkey);
  EXPECT_EQ(write.dma_length, all.dma_length);
  const headers atomic = decoded_as(transport::rc, compare_swap);
  EXPECT_EQ(atomic.remote_address, all.remote_address);
  EXPECT_EQ(atomic.rkey, all.rkey);
  EXPECT_EQ(atomic.swap_or_add, all.swap_or_add);
  EXPECT_EQ(atomic.compare, all.compare);
  const headers answer = decoded_as(transport::rc, atomic_acknowledge);
  EXPECT_EQ(answer.syndrome, all.syndrome);
  EXPECT_EQ(answer.msn, all.msn);
  EXPECT_EQ(answer.original, all.original);
  EXPECT_EQ(decoded_as(transport::rc, send_only_invalidate).invalidate_rkey, all.invalidate_rkey);
}

TEST(decode, leaves_fields_of_absent_headers_at_their_defaults) {
  const headers decoded = decode(datagram_of(full_headers(transport::rc, send_only)))->header;
  const headers expected{.service = transport::rc,
                         .op = send_only,
                         .solicited = true,
                         .ack_request = true,
                         .pkey = 0x8001,
                         .destination_qpn = 0xabcdef,
                         .psn = 0xfedcba};
  EXPECT_EQ(decoded, expected);
}

TEST(decode, separates_payload_and_pad) {
  for (std::uint8_t pad = 0; pad < 4; ++pad) {
    headers header = full_headers(transport::rc, write_only);
    header.pad_bytes = pad;
    const auto datagram = datagram_of(header, 100);
    const auto decoded = decode(datagram);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->header.pad_bytes, pad);
    EXPECT_EQ(decoded->payload.data(), datagram.data() + 28);
    EXPECT_EQ(decoded->payload.size(), 100U);
  }
}

TEST(decode, ignores_congestion_and_migration_bits) {
  auto datagram = datagram_of(full_headers(transport::rc, send_only));
  const auto before = decode(datagram)->header;
  datagram[1] |= std::byte{0x40};  // MigReq
  datagram[4] = std::byte{0xff};   // FECN, BECN, reserved
  datagram[8] |= std::byte{0x7f};  // reserved
  EXPECT_EQ(decode(datagram)->header, before);
}

struct malformed {
  const char* name;
  std::vector<std::byte> datagram;
};

std::vector<std::byte> changed(std::vector<std::byte> datagram, std::size_t at, unsigned value) {
  datagram[at] = static_cast<std::byte>(value);
  return datagram;
}

std::vector<std::byte> shortened(std::vector<std::byte> datagram, std::size_t by) {
  datagram.resize(datagram.size() - by);
  return datagram;
}

std::vector<malformed> malformed_datagrams() {
  const auto of = [](transport service, operation op, std::size_t payload = 0) {
    return datagram_of({.service = service, .op = op}, payload);
  };
  const auto send = of(transport::rc, send_only, 8);
  const auto with_pad = [](operation op, std::size_t payload, std::uint8_t pad) {
    return datagram_of({.op = op, .pad_bytes = pad}, payload);
  };
  return {
      {"empty", {}},
      {"one_byte", {std::byte{4}}},
      {"base_header_without_icrc", shortened(of(transport::rc, send_only), 4)},
      {"base_header_and_part_of_icrc", shortened(of(transport::rc, send_only), 1)},
      {"reth_cut_short", shortened(of(transport::rc, write_only), 1)},
      {"aeth_missing", shortened(of(transport::rc, acknowledge), 4)},
      {"atomiceth_cut_short", shortened(of(transport::xrc, compare_swap), 1)},
      {"deth_missing", shortened(of(transport::ud, send_only), 8)},
      {"immediate_missing", shortened(of(transport::ud, send_only_immediate), 4)},
      {"uc_read", changed(send, 0, 0x2c)},
      {"uc_atomic", changed(send, 0, 0x33)},
      {"ud_send_first", changed(send, 0, 0x60)},
      {"ud_write", changed(send, 0, 0x6a)},
      {"uc_reserved_operation", changed(send, 0, 0x35)},
      {"ud_operation_past_the_last", changed(send, 0, 0x7f)},
      {"reliable_datagram", changed(send, 0, 0x44)},
      {"manufacturers_opcode", changed(send, 0, 0xc4)},
      {"all_ones", std::vector<std::byte>(64, std::byte{0xff})},
      {"header_version_1", changed(send, 1, 0x01)},
      {"header_version_15", changed(send, 1, 0x0f)},
      {"pad_without_payload", changed(of(transport::rc, send_only), 1, 0x10)},
      {"pad_longer_than_the_rest", changed(of(transport::rc, send_only, 2), 1, 0x30)},
      {"payload_behind_an_acknowledge", of(transport::rc, acknowledge, 4)},
      {"payload_behind_a_read_request", of(transport::rc, read_request, 1)},
      {"payload_behind_an_atomic", of(transport::rc, fetch_add, 8)},
      {"payload_behind_an_atomics_answer", of(transport::rc, atomic_acknowledge, 8)},
      {"payload_behind_a_congestion_notification", of(transport::cnp, send_middle, 4)},
      {"pad_behind_an_acknowledge", with_pad(acknowledge, 0, 2)},
  };
}

TEST(decode, keeps_reserved_operations_of_reliable_services_to_be_refused) {
  for (const unsigned code : {0x15U, 0x18U, 0x1fU, 0xb5U, 0xbfU}) {
    auto datagram = datagram_of({.service = transport::rc, .op = send_only, .psn = 77}, 8);
    datagram[0] = static_cast<std::byte>(code);
    const auto decoded = decode(datagram);
    ASSERT_TRUE(decoded) << code;
    EXPECT_FALSE(is_defined(decoded->header.service, decoded->header.op)) << code;
    EXPECT_EQ(decoded->header.psn, 77U);
    EXPECT_EQ(decoded->payload.size(), 8U);
  }
}

class decode_refuses : public testing::TestWithParam<malformed> {};

TEST_P(decode_refuses, it) { EXPECT_FALSE(decode(GetParam().datagram)); }

INSTANTIATE_TEST_SUITE_P(malformed, decode_refuses, testing::ValuesIn(malformed_datagrams()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(decode, survives_every_cut_of_every_packet) {
  for (const transport service : transports) {
    for (unsigned op = 0; op < 32; ++op) {
      if (!is_defined(service, static_cast<operation>(op))) continue;
      const auto whole = datagram_of(full_headers(service, static_cast<operation>(op)));
      for (std::size_t length = 0; length < whole.size(); ++length) {
        // A copy, so that the sanitizers see its end.
        const std::vector cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
        EXPECT_FALSE(decode(cut));
      }
    }
  }
}

class recorded_packets : public recorded_traffic {};

TEST_P(recorded_packets, survives_decoding_and_encoding) {
  for (const recorded_packet& recorded : packets()) {
    const auto datagram = recorded.datagram();
    const auto decoded = decode(datagram);
    ASSERT_TRUE(decoded);
    const headers& header = decoded->header;
    EXPECT_EQ(header.pkey, 0xffff);
    EXPECT_EQ((decoded->payload.size() + header.pad_bytes) % 4, 0U);

    std::array<std::byte, most_header_bytes> encoded{};
    const std::size_t length = encode(header, encoded.data());
    EXPECT_EQ(length, header_bytes(header.service, header.op));
    EXPECT_THAT(std::span(encoded).first(length),
                testing::ElementsAreArray(datagram.first(length)));
    EXPECT_EQ(length + decoded->payload.size() + header.pad_bytes + icrc_bytes, datagram.size());
  }
}

INSTANTIATE_TEST_SUITE_P(from, recorded_packets, recorded_files,
                         [](const auto& instance) { return std::string(instance.param); });

TEST(recorded_operations, begin_with_the_sends_that_were_made) {
  const auto packets = read_pcap(recording("rc_uc_operations"));
  const auto first = decode(packets.at(0).datagram());
  ASSERT_TRUE(first);
  EXPECT_EQ(first->header.service, transport::rc);
  EXPECT_EQ(first->header.op, send_only);
  EXPECT_EQ(first->header.psn, 0x111111U);
  EXPECT_EQ(first->header.pad_bytes, 3);
  EXPECT_EQ(first->payload.size(), 1U);
  const auto answer = decode(packets.at(1).datagram());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->header.op, acknowledge);
  EXPECT_EQ(answer->header.psn, 0x111111U);
  EXPECT_TRUE(is_ack(answer->header.syndrome));
}

TEST(recorded_operations, contain_the_refusals_that_were_provoked) {
  int rnr = 0;
  std::vector<unsigned> naks;
  for (const auto& recorded : read_pcap(recording("rc_uc_operations"))) {
    const auto decoded = decode(recorded.datagram());
    ASSERT_TRUE(decoded);
    if (decoded->header.op != acknowledge) continue;
    const std::uint8_t syndrome = decoded->header.syndrome;
    if (is_rnr(syndrome)) ++rnr;
    if (is_nak(syndrome)) naks.push_back(syndrome & 0x1fU);
  }
  EXPECT_GT(rnr, 1);
  EXPECT_THAT(naks, testing::Contains(static_cast<unsigned>(nak::remote_access)));
}

TEST(psn_distance, counts_modulo_2_to_the_24) {
  EXPECT_EQ(psn_distance(5, 5), 0);
  EXPECT_EQ(psn_distance(5, 7), 2);
  EXPECT_EQ(psn_distance(7, 5), -2);
  EXPECT_EQ(psn_distance(0xffffff, 0), 1);
  EXPECT_EQ(psn_distance(0, 0xffffff), -1);
  EXPECT_EQ(psn_distance(0, 0x7fffff), 0x7fffff);
  EXPECT_EQ(psn_distance(0, 0x800000), -0x800000);
}

TEST(syndromes, are_of_one_kind) {
  for (unsigned syndrome = 0; syndrome < 128; ++syndrome) {
    const auto value = static_cast<std::uint8_t>(syndrome);
    EXPECT_EQ(is_ack(value), syndrome < 0x20);
    EXPECT_EQ(is_rnr(value), syndrome >= 0x20 && syndrome < 0x40);
    EXPECT_EQ(is_nak(value), syndrome >= 0x60);
  }
}

}  // namespace
