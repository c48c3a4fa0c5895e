// ibv_import_device and its family: a context, a domain and a region have a second user, and stay
// until both have gone.

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::same_bytes;

ibv_context* import(const ibv_context* context) {
  return ibv_import_device(::dup(context->cmd_fd));
}

TEST(import, a_duplicate_of_the_command_descriptor_gives_the_context) {
  const connected_pair pair;
  const owned<ibv_context> again(import(pair.context));
  ASSERT_NE(again, nullptr);
  EXPECT_STREQ(ibv_get_device_name(again->device), ibv_get_device_name(pair.context->device));
  ibv_device_attr attributes{};
  EXPECT_EQ(ibv_query_device(again.get(), &attributes), 0);
  const auto pd = own(ibv_alloc_pd(again.get()));
}

TEST(import, either_user_may_close_the_context_first) {
  for (const bool importer_first : {true, false}) {
    auto opened = open_device();
    owned<ibv_context> again(import(opened.get()));
    ASSERT_NE(again, nullptr);
    auto& first = importer_first ? again : opened;
    auto& second = importer_first ? opened : again;
    first.reset();
    const auto pd = own(ibv_alloc_pd(second.get()));
  }
}

TEST(import, a_context_that_was_closed_cannot_be_imported) {
  auto context = open_device();
  const int file = ::dup(context->cmd_fd);
  context.reset();
  errno = 0;
  EXPECT_EQ(ibv_import_device(file), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(::close(file), 0) << "the descriptor is still its owner's";
}

TEST(import, descriptors_of_others_are_not_supported) {
  const auto context = open_device();
  const int events = ::eventfd(0, EFD_CLOEXEC);
  const int memory = ::memfd_create("no device", MFD_CLOEXEC);
  const auto expect_refusal = [](int file) {
    errno = 0;
    EXPECT_EQ(ibv_import_device(file), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP) << file;
  };
  for (const int file : {events, memory, ::dup(context->async_fd)}) {
    expect_refusal(file);
    EXPECT_EQ(::close(file), 0) << "the descriptor is still its owner's";
  }
  for (const int nothing : {-1, 123456}) expect_refusal(nothing);
}

TEST(import, a_domain_and_a_region_are_found_by_their_handles) {
  connected_pair pair;
  buffer from(pair.a.domain(), 5000);
  buffer to(pair.b.domain(), 5000);
  fill_pattern(from.bytes(), 3);
  const owned<ibv_context> again(import(pair.context));
  ASSERT_NE(again, nullptr);

  auto* const pd = ibv_import_pd(again.get(), pair.a.domain()->handle);
  ASSERT_NE(pd, nullptr);
  auto* const mr = ibv_import_mr(pd, from.mr->handle);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->lkey, from.mr->lkey);
  EXPECT_EQ(mr->rkey, from.mr->rkey);
  // What is registered there is good for queue pairs here.
  buffer more(pd, 5000);
  fill_pattern(more.bytes(), 4);
  auto sge = more.sge();
  EXPECT_EQ(write(1, {sge}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
  wait_for_success(pair.a.send_cq.get());
  EXPECT_TRUE(same_bytes(to.bytes(), more.bytes()));
  ibv_unimport_mr(mr);
  ibv_unimport_pd(pd);

  EXPECT_EQ(write(2, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
  wait_for_success(pair.a.send_cq.get());
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes())) << "unimporting destroys nothing";
}

TEST(import, what_does_not_exist_is_not_found) {
  const auto context = open_device();
  const auto pd = own(ibv_alloc_pd(context.get()));
  const auto other = own(ibv_alloc_pd(context.get()));
  const buffer memory(pd.get(), 8);
  EXPECT_NE(pd->handle, other->handle);
  errno = 0;
  EXPECT_EQ(ibv_import_pd(context.get(), 12345), nullptr);
  EXPECT_EQ(errno, ENOENT);
  errno = 0;
  EXPECT_EQ(ibv_import_mr(pd.get(), memory.mr->handle + 1), nullptr);
  EXPECT_EQ(errno, ENOENT);
  errno = 0;
  EXPECT_EQ(ibv_import_mr(other.get(), memory.mr->handle), nullptr) << "of another domain";
  EXPECT_EQ(errno, ENOENT);
}

TEST(import, what_the_other_user_has_destroyed_can_only_be_unimported) {
  const auto context = open_device();
  auto pd = own(ibv_alloc_pd(context.get()));
  std::byte memory{};
  auto mr = own(ibv_reg_mr(pd.get(), &memory, 1, IBV_ACCESS_LOCAL_WRITE));
  auto* const same_pd = ibv_import_pd(context.get(), pd->handle);
  ASSERT_NE(same_pd, nullptr);
  auto* const same_mr = ibv_import_mr(same_pd, mr->handle);
  ASSERT_NE(same_mr, nullptr);
  const auto handle = mr->handle;

  mr.reset();
  EXPECT_EQ(ibv_dereg_mr(same_mr), ENOENT);
  EXPECT_EQ(ibv_import_mr(same_pd, handle), nullptr);
  ibv_unimport_mr(same_mr);
  pd.reset();
  EXPECT_EQ(ibv_dealloc_pd(same_pd), ENOENT);
  ibv_unimport_pd(same_pd);
}

}  // namespace
}  // namespace softverbs::device_tests
