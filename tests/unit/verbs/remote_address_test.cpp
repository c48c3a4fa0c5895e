#include <rdmaxx/verbs/remote_address.hpp>

#include <array>
#include <cstddef>
#include <span>

#include <gtest/gtest.h>

namespace rdmaxx::test {
namespace {

constexpr remote_address place{.address = 0x0102030405060708, .key = rkey(0x090a0b0c)};

TEST(remote_address, bytes_are_big_endian_and_the_same_on_every_host) {
  std::array<std::byte, 12> expected{};
  for (std::size_t i = 0; i < expected.size(); ++i) expected.at(i) = std::byte(i + 1);

  EXPECT_EQ(place.to_bytes(), expected);
}

TEST(remote_address, comes_back_from_its_bytes) {
  EXPECT_EQ(remote_address::from_bytes(place.to_bytes()).value(), place);
}

TEST(remote_address, bytes_of_another_size_are_refused) {
  const std::array<std::byte, 13> bytes{};
  for (const std::size_t size : {0U, 11U, 13U}) {
    const auto refused = remote_address::from_bytes(std::span(bytes).first(size));

    ASSERT_FALSE(refused.has_value()) << size;
    EXPECT_EQ(refused.error().category(), error_category::misuse);
  }
}

}  // namespace
}  // namespace rdmaxx::test
