#include <rdmaxx/verbs/qp_endpoint.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace rdmaxx;
using testing::HasSubstr;

namespace {

using wire = std::array<std::byte, qp_endpoint::serialized_size>;

qp_endpoint sample() {
  return {.number = qpn(0x010203),
          .first_psn = psn(0xabcdef),
          .gid = gid::parse("::ffff:10.0.0.7").value(),
          .lid = lid(0x1234),
          .link_layer = link_layer::ethernet,
          .mtu = mtu::mtu_4096,
          .queue_key = qkey(0x80000001),
          .responder_resources = 16};
}

// The format on the wire is a promise to peers of other builds: these bytes must never change.
constexpr std::array<std::uint8_t, qp_endpoint::serialized_size> golden{
    'R',  'X',  'E',  'P',                                              // magic
    1,                                                                  // version
    2,                                                                  // link layer: ethernet
    5,                                                                  // mtu: 4096
    16,                                                                 // responder resources
    0x00, 0x01, 0x02, 0x03,                                             // qpn
    0x00, 0xab, 0xcd, 0xef,                                             // psn
    0x80, 0x00, 0x00, 0x01,                                             // qkey
    0x12, 0x34,                                                         // lid
    0,    0,                                                            // reserved
    0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7,  // gid
};

wire golden_bytes() {
  wire bytes{};
  std::ranges::transform(golden, bytes.begin(), [](std::uint8_t byte) { return std::byte(byte); });
  return bytes;
}

}  // namespace

TEST(qp_endpoint, serialises_to_the_documented_bytes) {
  EXPECT_EQ(sample().to_bytes(), golden_bytes());
}

TEST(qp_endpoint, is_read_from_the_documented_bytes) {
  EXPECT_EQ(qp_endpoint::from_bytes(golden_bytes()).value(), sample());
}

TEST(qp_endpoint, random_endpoints_survive_the_round_trip) {
  std::mt19937 random(20240607);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same ones in every run
  for (int i = 0; i < 1000; ++i) {
    std::array<std::uint8_t, 16> raw{};
    std::ranges::generate(raw, [&] { return static_cast<std::uint8_t>(random()); });
    const qp_endpoint original{
        .number = qpn(random() & 0xffffffU),
        .first_psn = psn(random() & 0xffffffU),
        .gid = gid(raw),
        .lid = lid(static_cast<std::uint16_t>(random())),
        .link_layer = random() % 2 == 0 ? link_layer::infiniband : link_layer::ethernet,
        .mtu = mtu(1 + random() % 5),
        .queue_key = qkey(static_cast<std::uint32_t>(random())),
        .responder_resources = static_cast<std::uint8_t>(random()),
    };

    ASSERT_EQ(qp_endpoint::from_bytes(original.to_bytes()).value(), original) << describe(original);
  }
}

TEST(qp_endpoint, any_other_length_is_an_error_that_says_both) {
  const auto bytes = golden_bytes();
  std::vector<std::byte> text(bytes.begin(), bytes.end());
  text.resize(2 * text.size());
  for (std::size_t length = 0; length <= text.size(); ++length) {
    if (length == qp_endpoint::serialized_size) continue;
    const auto failed = qp_endpoint::from_bytes(std::span(text).first(length));

    ASSERT_FALSE(failed.has_value()) << length;
    EXPECT_THAT(failed.error().problem(),
                HasSubstr(std::to_string(length) + " bytes instead of 40"));
  }
}

TEST(qp_endpoint, each_malformed_field_is_an_error_with_its_reason_and_a_hint) {
  struct fault {
    std::size_t at;
    std::uint8_t value;
    std::string problem;
  };
  for (const auto& [at, value, problem] :
       {fault{0, 'r', "RXEP"}, fault{3, 0, "RXEP"}, fault{4, 0, "version 0 instead of 1"},
        fault{4, 2, "version 2 instead of 1"}, fault{5, 0, "link layer 0"},
        fault{5, 3, "link layer 3"}, fault{6, 0, "mtu code 0"}, fault{6, 6, "mtu code 6"},
        fault{6, 255, "mtu code 255"},
        fault{8, 1, "queue pair number 0x1010203 has more than 24 bits"},
        fault{12, 0x80, "sequence number 0x80abcdef has more than 24 bits"},
        fault{22, 1, "reserved"}, fault{23, 1, "reserved"}}) {
    auto bytes = golden_bytes();
    bytes.at(at) = std::byte(value);

    const auto failed = qp_endpoint::from_bytes(bytes);

    ASSERT_FALSE(failed.has_value()) << "byte " << at;
    EXPECT_EQ(failed.error().category(), error_category::misuse);
    EXPECT_THAT(failed.error().problem(), HasSubstr(problem));
    EXPECT_FALSE(failed.error().hint().empty());
  }
}

TEST(qp_endpoint, no_single_byte_change_reads_as_the_same_endpoint) {
  for (std::size_t at = 0; at < qp_endpoint::serialized_size; ++at) {
    for (unsigned change = 1; change < 256; ++change) {
      auto bytes = golden_bytes();
      bytes.at(at) ^= std::byte(change);

      const auto read = qp_endpoint::from_bytes(bytes);

      if (!read) continue;
      EXPECT_NE(*read, sample()) << "byte " << at;
      EXPECT_EQ(read->to_bytes(), bytes) << "what is accepted is understood completely";
    }
  }
}

TEST(qp_endpoint, is_described_by_number_and_address) {
  EXPECT_EQ(describe(sample()),
            "queue pair 0x10203 psn 0xabcdef at ::ffff:10.0.0.7 (ethernet, mtu 4096)");
}

TEST(qp_endpoint, without_a_gid_it_is_described_by_its_lid) {
  EXPECT_THAT(describe(qp_endpoint{.lid = lid(7), .link_layer = link_layer::infiniband}),
              HasSubstr("at lid 0x7"));
}
