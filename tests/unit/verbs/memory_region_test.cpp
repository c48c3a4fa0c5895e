#include <rdmaxx/verbs/memory_region.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit/core/captured_log.hpp"
#include "unit/verbs/fake_verbs.hpp"
#include "verbs/memory_region_block.hpp"

using namespace rdmaxx;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// Memory that is only talked about, never touched: a fake device registers what does not exist.
std::span<std::byte> imaginary(std::uintptr_t start, std::size_t bytes) {
  return {reinterpret_cast<std::byte*>(start), bytes};
}

class memory_region_test : public testing::Test {
 protected:
  fake_setup setup;
  std::array<std::byte, 256> arena{};
  std::span<std::byte> whole = std::span(arena).subspan(64, 128);  // with neighbours on both sides
  memory_region region = setup.pd.register_local(whole).value();
};

}  // namespace

TEST_F(memory_region_test, tells_what_was_registered) {
  EXPECT_EQ(region.data(), whole.data());
  EXPECT_EQ(region.size(), 128U);
  EXPECT_EQ(region.bytes().data(), whole.data());
  EXPECT_EQ(region.lkey(), lkey(region.native()->lkey));
  EXPECT_EQ(region.rkey(), rkey(region.native()->rkey));
  EXPECT_EQ(region.access(), access_flags(access::local_write));
}

TEST_F(memory_region_test, gathers_any_part_of_itself) {
  const auto all = region.gather();
  const auto part = region.gather(whole.subspan(100, 28));

  EXPECT_EQ(all.address(), reinterpret_cast<std::uintptr_t>(whole.data()));
  EXPECT_EQ(all.size(), 128U);
  EXPECT_EQ(all.key(), region.lkey());
  EXPECT_EQ(part.address(), all.address() + 100);
  EXPECT_EQ(part.size(), 28U);
}

TEST_F(memory_region_test, scatters_any_part_of_itself) {
  const auto all = region.scatter();
  const auto part = region.scatter(whole.first(1));

  EXPECT_EQ(all.size(), 128U);
  EXPECT_EQ(all.key(), region.lkey());
  EXPECT_EQ(part.address(), all.address());
  EXPECT_EQ(part.size(), 1U);
}

TEST_F(memory_region_test, elements_of_a_zero_based_region_count_from_its_start) {
  const auto zero_based =
      setup.pd.register_shared(unsafe, whole, access::zero_based | access::remote_write).value();

  EXPECT_EQ(zero_based.gather().address(), 0U);
  EXPECT_EQ(zero_based.gather(whole.subspan(16, 8)).address(), 16U);
  EXPECT_EQ(zero_based.try_gather(whole.subspan(128, 0)).value().address(), 128U);
  EXPECT_EQ(zero_based.scatter(whole.last(1)).address(), 127U);
  EXPECT_EQ(zero_based.try_scatter(whole.first(1)).value().address(), 0U);
  EXPECT_EQ(zero_based.remote(16).address, 16U);
  EXPECT_FALSE(zero_based.try_gather(std::span(arena).first(16)).has_value());
  EXPECT_EQ(zero_based.data(), whole.data()) << "the program's own pointer stays what it is";
}

using memory_region_death = memory_region_test;

TEST_F(memory_region_death, unchecked_elements_are_not_for_zero_based_regions) {
  const auto zero_based =
      setup.pd.register_shared(unsafe, whole, access::zero_based | access::remote_write).value();

  EXPECT_DEATH(static_cast<void>(zero_based.gather_unchecked(whole)),
               "memory_region::gather_unchecked.*zero-based.*use gather");
  EXPECT_DEATH(static_cast<void>(zero_based.scatter_unchecked(whole)), "zero-based");
}

TEST_F(memory_region_test, no_bytes_are_inside_up_to_and_including_the_end) {
  EXPECT_EQ(region.gather(whole.subspan(0, 0)).size(), 0U);
  EXPECT_EQ(region.gather(whole.subspan(128, 0)).size(), 0U);
  EXPECT_FALSE(region.try_gather(std::span(arena).subspan(193, 0)).has_value());
}

TEST_F(memory_region_test, what_sticks_out_is_refused) {
  const std::span<std::byte> arena_span(arena);
  for (const auto& outside :
       {arena_span.subspan(63, 1), arena_span.subspan(63, 2), arena_span.subspan(63, 129),
        arena_span.subspan(192, 1), arena_span.subspan(191, 2), arena_span.subspan(64, 129),
        arena_span.first(16), arena_span.last(16), arena_span}) {
    EXPECT_FALSE(region.try_gather(outside).has_value());
    EXPECT_FALSE(region.try_scatter(outside).has_value());
    EXPECT_THROW(static_cast<void>(region.gather(outside)), exception);
    EXPECT_THROW(static_cast<void>(region.scatter(outside)), exception);
  }
}

TEST_F(memory_region_test, the_refusal_shows_both_ranges_and_what_to_do) {
  const auto failed = region.try_gather(std::span(arena).subspan(192, 16));

  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().operation(), "memory_region::gather");
  EXPECT_EQ(failed.error().category(), error_category::misuse);
  EXPECT_THAT(failed.error().problem(), HasSubstr("16 bytes"));
  EXPECT_THAT(failed.error().problem(), HasSubstr("region of 128 bytes"));
  EXPECT_FALSE(failed.error().hint().empty());
}

TEST_F(memory_region_test, what_is_thrown_is_the_same_error) {
  try {
    static_cast<void>(region.scatter(std::span(arena)));
    FAIL() << "nothing was thrown";
  } catch (const exception& thrown) {
    EXPECT_EQ(thrown.error().operation(), "memory_region::scatter");
    EXPECT_EQ(thrown.error().category(), error_category::misuse);
  }
}

TEST_F(memory_region_test, a_range_that_wraps_around_the_address_space_is_refused) {
  const auto top = setup.pd.register_local(imaginary(0xffff'ffff'ffff'f000, 0xfff)).value();

  EXPECT_TRUE(top.try_gather(imaginary(0xffff'ffff'ffff'f000, 0xfff)).has_value());
  EXPECT_FALSE(top.try_gather(imaginary(0xffff'ffff'ffff'f000, 0x1001)).has_value());
  EXPECT_FALSE(top.try_gather(imaginary(0xffff'ffff'ffff'fff0, 0xffff'ffff'ffff'f000)).has_value());
  EXPECT_FALSE(top.try_gather(imaginary(0, 1)).has_value());
  EXPECT_FALSE(top.try_gather(imaginary(0x1000, 1)).has_value());
}

TEST_F(memory_region_test, an_element_holds_less_than_4_gib) {
  constexpr std::uintptr_t start = 0x1'0000'0000;
  constexpr std::size_t gib4 = std::size_t{1} << 32;
  const auto huge = setup.pd.register_local(imaginary(start, 2 * gib4)).value();

  EXPECT_EQ(huge.try_gather(imaginary(start, gib4 - 1)).value().size(), 0xffffffffU);
  EXPECT_EQ(huge.try_gather(imaginary(start + gib4, gib4 - 1)).value().address(), start + gib4);
  const auto failed = huge.try_gather(imaginary(start, gib4));

  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().problem(), HasSubstr("4294967296 bytes"));
  EXPECT_THAT(failed.error().hint(), HasSubstr("4 GiB"));
  EXPECT_THROW(static_cast<void>(huge.gather()), exception);
  EXPECT_FALSE(huge.try_scatter(imaginary(start, gib4)).has_value());
}

TEST_F(memory_region_test, a_read_only_region_gathers_and_does_not_scatter) {
  const auto read_only = setup.pd.register_readonly(whole).value();

  EXPECT_EQ(read_only.gather().size(), 128U);
  EXPECT_THROW(static_cast<void>(read_only.scatter()), exception);
  const auto failed = read_only.try_scatter(whole);
  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().problem(), HasSubstr("reading only"));
  EXPECT_THAT(failed.error().hint(), HasSubstr("register_local"));
}

TEST_F(memory_region_test, the_unchecked_forms_believe_their_caller) {
  const auto outside = std::span(arena).first(8);

  EXPECT_EQ(region.gather_unchecked(outside).address(),
            reinterpret_cast<std::uintptr_t>(arena.data()));
  EXPECT_EQ(region.scatter_unchecked(outside).size(), 8U);
}

TEST_F(memory_region_test, remote_addresses_reach_up_to_the_end) {
  EXPECT_EQ(region.remote(),
            (remote_address{.address = reinterpret_cast<std::uintptr_t>(whole.data()),
                            .key = region.rkey()}));
  EXPECT_EQ(region.remote(128).address, region.remote().address + 128);
  EXPECT_THROW(static_cast<void>(region.remote(129)), exception);
}

TEST_F(memory_region_test, sharing_adds_the_local_write_that_remote_writes_need) {
  EXPECT_EQ(setup.pd.register_shared(unsafe, whole, access::remote_read).value().access(),
            access_flags(access::remote_read));
  EXPECT_EQ(setup.pd.register_shared(unsafe, whole, access::remote_write).value().access(),
            access::remote_write | access::local_write);
  EXPECT_EQ(setup.pd.register_shared(unsafe, whole, access::remote_atomic).value().access(),
            access::remote_atomic | access::local_write);
}

TEST_F(memory_region_test, nothing_cannot_be_registered) {
  const auto failed = setup.pd.register_local({});

  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().hint(), HasSubstr("at least one byte"));
}

TEST_F(memory_region_test, refused_registrations_say_what_to_do) {
  setup.card.refuse("ibv_reg_mr", ENOMEM);
  EXPECT_THAT(setup.pd.register_local(whole).error().hint(), HasSubstr("ulimit -l"));

  setup.card.refuse("ibv_reg_mr", EFAULT);
  EXPECT_THAT(setup.pd.register_local(whole).error().hint(), HasSubstr("register_readonly"));

  setup.card.refuse("ibv_reg_mr", EINVAL);
  EXPECT_THAT(setup.pd.register_local(imaginary(0x1000, std::size_t{1} << 41)).error().hint(),
              HasSubstr("at most 1099511627776 bytes"));
}

TEST_F(memory_region_test, is_described_with_keys_and_access) {
  EXPECT_EQ(describe(memory_region()), "memory_region (empty)");
  EXPECT_THAT(describe(region), HasSubstr("memory_region 128 bytes at 0x"));
  EXPECT_THAT(describe(region), HasSubstr("local_write"));
}

TEST_F(memory_region_test, an_owned_region_has_zeroed_pages_of_its_own) {
  const auto owned = setup.pd.allocate_local({.bytes = 5000}).value();

  EXPECT_EQ(owned.size(), 5000U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(owned.data()) %
                static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)),
            0U);
  EXPECT_THAT(owned.bytes(), testing::Each(std::byte{0}));
  EXPECT_THAT(setup.pd.allocate_local({}).error().problem(), HasSubstr("0 bytes"));
  EXPECT_FALSE(setup.pd.allocate_local({.bytes = SIZE_MAX}).has_value());
}

TEST_F(memory_region_test, a_failed_deregistration_leaks_the_buffer_and_says_so) {
  const captured_log log;
  auto owned = setup.pd.allocate_local({.bytes = 64}).value();
  const auto bytes = owned.bytes();
  auto* const native = owned.native();
  auto* const block = &detail::handle_access::block<detail::memory_region_block>(owned);
  setup.card.refuse("ibv_dereg_mr", EBUSY);

  owned = {};

  bytes[0] = std::byte{1};  // the device might do so, too
  EXPECT_THAT(log.lines(), ElementsAre(testing::AllOf(HasSubstr("ibv_dereg_mr(memory_region lkey"),
                                                      HasSubstr("fake0"), HasSubstr("errno 16"))));
  setup.card.refuse("ibv_dereg_mr", 0);
  delete block;  // what the test leaked on purpose
  delete native;
}

TEST_F(memory_region_test, is_adopted_and_ends_as_told) {
  ibv_mr* const given = ibv_reg_mr_iova2(setup.pd.native(), arena.data(), arena.size(), 0, 0);
  {
    const auto lent =
        memory_region::adopt(given, setup.pd, {}, {.kind = ownership::borrowed}).value();
    EXPECT_EQ(lent.size(), arena.size());
    EXPECT_FALSE(lent.try_scatter(arena)) << "the caller said that it is read-only";
  }
  EXPECT_TRUE(setup.card.ended.empty());
  {
    const auto owned = memory_region::adopt(given, setup.pd, access::local_write).value();
    EXPECT_TRUE(owned.try_scatter(arena));
  }
  EXPECT_THAT(setup.card.ended, ElementsAre("ibv_dereg_mr"));
}

TEST_F(memory_region_test, adoption_refuses_what_does_not_belong_together) {
  const auto other = setup.ctx.alloc_pd().value();
  const adoption lent{.kind = ownership::borrowed};

  EXPECT_FALSE(memory_region::adopt(nullptr, setup.pd, {}, lent));
  EXPECT_FALSE(memory_region::adopt(region.native(), {}, {}, lent));
  EXPECT_THAT(memory_region::adopt(region.native(), other, {}, lent).error().problem(),
              HasSubstr("another domain"));
}
