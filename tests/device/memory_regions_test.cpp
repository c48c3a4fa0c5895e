// memory_region, owned_region: registration, its access, and the proof of it in elements.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

constexpr std::size_t page_bytes = 4096;

/// Fresh pages with a protection of the caller's choice.
class mapping {
 public:
  mapping(std::size_t bytes, int protection)
      : bytes_(bytes),
        start_(::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                      0)) {
    if (start_ == MAP_FAILED) throw std::bad_alloc();
  }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;
  ~mapping() { ::munmap(start_, bytes_); }

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(start_), bytes_};
  }
  void protect(int protection) const { ASSERT_EQ(::mprotect(start_, bytes_, protection), 0); }

 private:
  std::size_t bytes_;
  void* start_;
};

class memory_regions : public device_test {
 protected:
  protection_domain pd = ctx.alloc_pd().value();  // NOLINT(readability-identifier-naming)
};

TEST_F(memory_regions, a_region_is_its_buffer_with_keys) {
  std::vector<std::byte> buffer(1000);

  const auto region = pd.register_local(buffer).value();

  EXPECT_EQ(region.data(), buffer.data());
  EXPECT_EQ(region.size(), buffer.size());
  EXPECT_EQ(region.bytes().data(), buffer.data());
  EXPECT_EQ(region.lkey().value(), region.native()->lkey);
  EXPECT_EQ(region.rkey().value(), region.native()->rkey);
  EXPECT_EQ(region.access(), access_flags(access::local_write));
}

TEST_F(memory_regions, elements_carry_place_size_and_key) {
  std::vector<std::byte> buffer(1000);
  const auto region = pd.register_local(buffer).value();

  const auto gathered = region.gather(std::span(buffer).subspan(10, 20));
  const auto scattered = region.scatter(std::span(buffer).subspan(999, 1));

  EXPECT_EQ(gathered.address(), reinterpret_cast<std::uintptr_t>(buffer.data()) + 10);
  EXPECT_EQ(gathered.size(), 20U);
  EXPECT_EQ(gathered.key(), region.lkey());
  EXPECT_EQ(scattered.address(), reinterpret_cast<std::uintptr_t>(buffer.data()) + 999);
  EXPECT_EQ(scattered.size(), 1U);
}

TEST_F(memory_regions, remote_writes_imply_local_writes) {
  std::vector<std::byte> buffer(64);

  const auto region = pd.register_shared(unsafe, buffer, access::remote_write).value();

  EXPECT_TRUE(region.access().has(access::local_write | access::remote_write));
  EXPECT_FALSE(region.access().has(access::remote_read));
}

TEST_F(memory_regions, one_buffer_may_be_registered_more_than_once) {
  std::vector<std::byte> buffer(64);

  const auto first = pd.register_local(buffer).value();
  const auto second = pd.register_shared(unsafe, buffer, access::remote_read).value();

  EXPECT_NE(first.lkey(), second.lkey());
}

TEST_F(memory_regions, an_owned_region_starts_zeroed_and_on_a_page) {
  const auto region = pd.allocate_local({.bytes = 5000}).value();

  EXPECT_EQ(region.size(), 5000U);
  EXPECT_TRUE(all_zero(region.bytes()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data()) % page_bytes, 0U);
}

TEST_F(memory_regions, an_owned_region_unmaps_its_buffer_at_its_end) {
  auto region = pd.allocate_local({.bytes = page_bytes}).value();
  auto* const page = region.data();
  unsigned char resident = 0;
  ASSERT_EQ(::mincore(page, page_bytes, &resident), 0);

  region = {};

  EXPECT_NE(::mincore(page, page_bytes, &resident), 0) << "the page is still mapped";
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(memory_regions, huge_pages_that_are_not_there_are_an_error_with_a_hint) {
  constexpr std::size_t more_than_anybody_reserves = std::size_t{1} << 45;

  const auto region = pd.allocate_local({.bytes = more_than_anybody_reserves, .huge_pages = true});

  ASSERT_FALSE(region.has_value());
  EXPECT_NE(region.error().hint().find("nr_hugepages"), std::string_view::npos) << region.error();
}

TEST_F(memory_regions, nothing_cannot_be_registered) {
  const auto empty = pd.register_local({});
  const auto nothing = pd.allocate_local({.bytes = 0});

  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().category(), error_category::misuse);
  EXPECT_NE(empty.error().hint().find("at least one byte"), std::string_view::npos)
      << empty.error();
  ASSERT_FALSE(nothing.has_value());
  EXPECT_NE(nothing.error().hint().find("at least one byte"), std::string_view::npos)
      << nothing.error();
}

TEST_F(memory_regions, memory_that_is_not_there_is_an_error_with_a_hint) {
  const mapping unreadable(page_bytes, PROT_NONE);

  const auto region = pd.register_local(unreadable.bytes());

  ASSERT_FALSE(region.has_value());
  EXPECT_TRUE(region.error() == std::errc::bad_address) << region.error();
  EXPECT_NE(region.error().hint().find("not mapped"), std::string_view::npos) << region.error();
}

TEST_F(memory_regions, read_only_memory_is_refused_for_writing_and_accepted_for_reading) {
  const mapping memory(page_bytes, PROT_READ | PROT_WRITE);
  fill_pattern(memory.bytes(), 1);
  memory.protect(PROT_READ);

  const auto for_writing = pd.register_local(memory.bytes());
  const auto for_reading = pd.register_readonly(memory.bytes());

  ASSERT_FALSE(for_writing.has_value());
  EXPECT_TRUE(for_writing.error() == std::errc::bad_address) << for_writing.error();
  EXPECT_NE(for_writing.error().hint().find("register_readonly"), std::string_view::npos)
      << for_writing.error();
  EXPECT_TRUE(for_reading.has_value());
}

TEST_F(memory_regions, read_only_memory_can_be_sent_from) {
  const mapping memory(page_bytes, PROT_READ | PROT_WRITE);
  fill_pattern(memory.bytes(), 2);
  memory.protect(PROT_READ);
  const connected_pair pair;
  const auto region = pair.a.pd.register_readonly(memory.bytes()).value();
  const auto into = pair.b.local_memory(page_bytes);

  pair.b.qp.post(recv_wr{.into = into.scatter()}).value();
  pair.a.qp.post(send_wr{.from = region.gather()}).value();

  wait_for_success(pair.b.recv_cq);
  wait_for_success(pair.a.send_cq);
  EXPECT_TRUE(same_bytes(into.bytes(), memory.bytes()));
}

TEST_F(memory_regions, a_read_only_region_gives_no_scatter_element) {
  std::vector<std::byte> buffer(64);
  const auto region = pd.register_readonly(buffer).value();

  const auto element = region.try_scatter(buffer);

  ASSERT_FALSE(element.has_value());
  EXPECT_EQ(element.error().category(), error_category::misuse);
  EXPECT_NE(element.error().hint().find("register_local"), std::string_view::npos)
      << element.error();
  EXPECT_THROW(static_cast<void>(region.scatter(buffer)), exception);
  EXPECT_NO_THROW(static_cast<void>(region.gather(buffer)));
}

TEST_F(memory_regions, bytes_outside_the_region_are_refused) {
  std::vector<std::byte> buffer(300);
  const auto middle = std::span(buffer).subspan(100, 100);
  const auto region = pd.register_local(middle).value();
  const std::span all(buffer);

  for (const auto outside : {all.subspan(99, 1), all.subspan(99, 50), all.subspan(150, 51),
                             all.subspan(200, 1), all.subspan(0, 300), all.subspan(250, 10)}) {
    const auto gathered = region.try_gather(outside);
    const auto scattered = region.try_scatter(outside);

    ASSERT_FALSE(gathered.has_value());
    ASSERT_FALSE(scattered.has_value());
    EXPECT_EQ(gathered.error().category(), error_category::misuse);
    EXPECT_NE(gathered.error().problem().find("outside the region of 100 bytes"),
              std::string_view::npos)
        << gathered.error();
    EXPECT_FALSE(scattered.error().hint().empty());
    EXPECT_THROW(static_cast<void>(region.gather(outside)), exception);
  }
  EXPECT_TRUE(region.try_gather(all.subspan(100, 100)).has_value());
  EXPECT_TRUE(region.try_gather(all.subspan(200, 0)).has_value())
      << "no bytes at the end are inside";
}

TEST_F(memory_regions, more_bytes_than_an_element_holds_are_refused_with_the_limit) {
  constexpr std::size_t four_gibibytes = std::size_t{1} << 32;
  std::vector<std::byte> buffer(64);
  const auto region = pd.register_local(buffer).value();
  const mapping vast(four_gibibytes, PROT_NONE);

  const auto element = region.try_gather(vast.bytes());

  ASSERT_FALSE(element.has_value());
  EXPECT_EQ(element.error().category(), error_category::misuse);
  EXPECT_NE(element.error().hint().find("4 GiB"), std::string_view::npos) << element.error();
}

TEST_F(memory_regions, the_remote_address_of_a_place_beyond_the_end_is_refused) {
  std::vector<std::byte> buffer(64);
  const auto region = pd.register_shared(unsafe, buffer, access::remote_read).value();

  EXPECT_EQ(region.remote(64).address, reinterpret_cast<std::uintptr_t>(buffer.data()) + 64);
  EXPECT_EQ(region.remote(3), region.remote() + 3);
  EXPECT_THROW(static_cast<void>(region.remote(65)), exception);
}

TEST_F(memory_regions, moving_leaves_an_empty_handle) {
  std::vector<std::byte> buffer(64);
  auto region = pd.register_local(buffer).value();
  const auto key = region.lkey();

  const auto moved = std::move(region);

  EXPECT_FALSE(region);  // NOLINT(bugprone-use-after-move): that is the subject
  EXPECT_EQ(moved.lkey(), key);
}

}  // namespace
}  // namespace rdmaxx::device_tests
