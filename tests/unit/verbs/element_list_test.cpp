// Compiled with -O2 whatever the preset: what a list refers to and what it holds shows only when
// the compiler reuses the memory of temporaries.

#include <rdmaxx/verbs/element_list.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/core/format.hpp>

#include "unit/verbs/fake_verbs.hpp"

using namespace rdmaxx;

// One element, or something with a name.
static_assert(std::is_convertible_v<gather_element, gather_list>);
static_assert(std::is_convertible_v<std::array<gather_element, 2>&, gather_list>);
static_assert(std::is_convertible_v<const std::vector<gather_element>&, gather_list>);
static_assert(std::is_convertible_v<gather_element (&)[3], gather_list>);
static_assert(std::is_convertible_v<std::span<gather_element>, gather_list>);
static_assert(std::is_convertible_v<std::span<const gather_element, 2>, gather_list>);
// Nothing that is gone at the end of the expression, whatever its kind.
static_assert(!std::is_constructible_v<gather_list, std::array<gather_element, 2>>);
static_assert(!std::is_constructible_v<gather_list, const std::array<gather_element, 2>>);
static_assert(!std::is_constructible_v<gather_list, std::vector<gather_element>>);
static_assert(!std::is_constructible_v<gather_list, std::initializer_list<gather_element>>);
// Gathers and scatters stay apart.
static_assert(!std::is_constructible_v<gather_list, scatter_element>);
static_assert(!std::is_constructible_v<scatter_list, gather_element>);
static_assert(!std::is_constructible_v<scatter_list, std::span<const gather_element>>);
static_assert(!std::is_constructible_v<scatter_list, gather_list>);
// A request is a plain value.
static_assert(std::is_trivially_copyable_v<gather_list> &&
              std::is_trivially_destructible_v<scatter_list>);

namespace {

class element_list_test : public testing::Test {
 protected:
  [[nodiscard]] gather_element gather(std::size_t offset, std::size_t count) const {
    return region.gather(std::span(bytes).subspan(offset, count));
  }
  [[nodiscard]] scatter_element scatter(std::size_t offset, std::size_t count) {
    return region.scatter(std::span(bytes).subspan(offset, count));
  }
  /// What the device has been given last.
  void expect_sent(std::size_t offset, std::size_t count) const {
    ASSERT_EQ(device.sends.back().elements.size(), 1U);
    const ibv_sge& element = device.sends.back().elements.front();
    EXPECT_EQ(element.addr, reinterpret_cast<std::uintptr_t>(&bytes[offset]));
    EXPECT_EQ(element.length, count);
    EXPECT_EQ(element.lkey, region.lkey().value());
  }

  fake_setup setup;
  queue_pair qp = setup.make_qp({.max_inline = 16});
  fake_qp& device = fake_device::of(qp);
  std::array<std::byte, 64> bytes{};
  memory_region region = setup.pd.register_local(bytes).value();
};

/// Writes over the stack that is free now.
[[gnu::noinline]] void use_the_stack() {
  std::array<volatile std::byte, 4096> rubbish;
  for (auto& each : rubbish) each = std::byte{0xee};
}

/// What it was given comes from a frame that is gone.
[[gnu::noinline]] send_wr made_elsewhere(gather_element element) { return {.from = element}; }

}  // namespace

TEST_F(element_list_test, a_named_request_holds_its_element) {
  const send_wr request{.id = wr_id{1}, .from = gather(8, 24)};
  use_the_stack();
  ASSERT_TRUE(qp.post(request));
  expect_sent(8, 24);
}

TEST_F(element_list_test, a_temporary_request_holds_its_element) {
  ASSERT_TRUE(qp.post(send_wr{.id = wr_id{1}, .from = gather(8, 24)}));
  expect_sent(8, 24);
}

TEST_F(element_list_test, braces_around_one_element_mean_that_element) {
  const send_wr once{.from = {gather(0, 1)}};
  const send_wr twice{.from = {{gather(1, 2)}}};
  use_the_stack();
  ASSERT_TRUE(qp.post(once));
  expect_sent(0, 1);
  ASSERT_TRUE(qp.post(twice));
  expect_sent(1, 2);
}

TEST_F(element_list_test, requests_are_values_that_can_be_stored_changed_and_posted_again) {
  std::vector<send_wr> stored;
  for (std::size_t i = 0; i < 10; ++i) stored.push_back(made_elsewhere(gather(i, i + 1)));
  use_the_stack();
  for (std::size_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(qp.post(stored[i]));
    expect_sent(i, i + 1);
  }
  stored[0].from = gather(60, 4);
  ASSERT_TRUE(qp.post(stored[0]));
  expect_sent(60, 4);
}

TEST_F(element_list_test, receives_hold_their_element_too) {
  const recv_wr request{.into = scatter(16, 32)};
  use_the_stack();
  ASSERT_TRUE(qp.post(request));
  ASSERT_EQ(device.recvs.back().elements.size(), 1U);
  EXPECT_EQ(device.recvs.back().elements[0].addr, reinterpret_cast<std::uintptr_t>(&bytes[16]));
  EXPECT_EQ(device.recvs.back().elements[0].length, 32U);
}

TEST_F(element_list_test, several_elements_are_those_of_the_caller) {
  std::array parts{gather(0, 8), gather(32, 16)};
  const send_wr request{.from = parts};
  parts[1] = gather(40, 2);

  ASSERT_TRUE(qp.post(request));

  ASSERT_EQ(device.sends.back().elements.size(), 2U);
  EXPECT_EQ(device.sends.back().elements[1].length, 2U) << "the array is not copied";
}

TEST_F(element_list_test, part_of_an_array_is_a_span_of_it) {
  const std::vector parts{gather(0, 1), gather(1, 2), gather(3, 3)};
  ASSERT_TRUE(qp.post(send_wr{.from = std::span(parts).first(2)}));
  EXPECT_EQ(device.sends.back().elements.size(), 2U);
}

TEST_F(element_list_test, an_array_of_one_and_an_empty_one_are_arrays) {
  const std::array one{gather(4, 4)};
  ASSERT_TRUE(qp.post(send_wr{.from = one}));
  expect_sent(4, 4);
  const std::vector<gather_element> none;
  ASSERT_TRUE(qp.post(send_wr{.from = none}));
  EXPECT_TRUE(device.sends.back().elements.empty());
  ASSERT_TRUE(qp.post(send_wr{}));
  EXPECT_TRUE(device.sends.back().elements.empty());
}

TEST_F(element_list_test, knows_its_elements_and_bytes) {
  const std::array parts{gather(0, 8), gather(32, 16)};
  EXPECT_EQ(fmt::format("{}", gather_list(parts)), "2 elements, 24 bytes");
  EXPECT_EQ(fmt::format("{}", scatter_list(scatter(0, 5))), "1 element, 5 bytes");
  EXPECT_TRUE(gather_list().empty());
  EXPECT_EQ(gather_list(parts)[1].size(), 16U);
  EXPECT_EQ(gather_list(parts[1])[0].size(), 16U);
}
