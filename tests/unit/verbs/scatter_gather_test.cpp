#include <rdmaxx/verbs/scatter_gather.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gtest/gtest.h>

#include <rdmaxx/verbs/remote_address.hpp>

using namespace rdmaxx;

// Arrays of elements go to the driver as they are.
static_assert(sizeof(gather_element) == sizeof(ibv_sge) &&
              alignof(gather_element) == alignof(ibv_sge));
static_assert(sizeof(scatter_element) == sizeof(ibv_sge) &&
              alignof(scatter_element) == alignof(ibv_sge));
static_assert(std::is_standard_layout_v<gather_element> &&
              std::is_trivially_copyable_v<gather_element>);
static_assert(std::is_standard_layout_v<scatter_element> &&
              std::is_trivially_copyable_v<scatter_element>);

// Neither can be mistaken for the other, nor made from numbers.
static_assert(!std::is_convertible_v<gather_element, scatter_element> &&
              !std::is_convertible_v<scatter_element, gather_element>);
static_assert(!std::is_constructible_v<gather_element, scatter_element> &&
              !std::is_constructible_v<scatter_element, gather_element>);
static_assert(!std::is_constructible_v<gather_element, ibv_sge> &&
              !std::is_constructible_v<scatter_element, ibv_sge>);
static_assert(!std::is_constructible_v<scatter_element, void*, std::size_t, std::uint32_t>);

TEST(gather_element, an_empty_one_has_no_bytes) {
  EXPECT_EQ(gather_element().size(), 0U);
  EXPECT_EQ(gather_element().address(), 0U);
  EXPECT_EQ(scatter_element().size(), 0U);
}

TEST(gather_element, an_unregistered_one_has_no_key) {
  const std::array<std::byte, 24> bytes{};

  const auto element = gather_element::unregistered(bytes);

  EXPECT_EQ(element.address(), reinterpret_cast<std::uintptr_t>(bytes.data()));
  EXPECT_EQ(element.size(), 24U);
  EXPECT_EQ(element.key(), lkey(0));
}

TEST(gather_element, a_list_of_them_is_a_list_of_ibv_sge) {
  const std::array<std::byte, 8> bytes{};
  const std::array list{gather_element::unregistered(bytes),
                        gather_element::unregistered(std::span(bytes).subspan(4))};

  const ibv_sge* const native = detail::native_list(std::span<const gather_element>(list));

  EXPECT_EQ(native[0].addr, list[0].address());
  EXPECT_EQ(native[1].addr, list[0].address() + 4);
  EXPECT_EQ(native[1].length, 4U);
}

TEST(remote_address, moves_on_and_keeps_its_key) {
  constexpr remote_address start{.address = 0x1000, .key = rkey(0x77)};

  EXPECT_EQ(start + 0x20, (remote_address{.address = 0x1020, .key = rkey(0x77)}));
  EXPECT_NE(start + 0, (remote_address{.address = 0x1000, .key = rkey(0x78)}));
  EXPECT_EQ(describe(start), "0x1000 with rkey 0x77");
}
