#pragma once

// owned: C objects that end with their scope. One that cannot be destroyed fails the test.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#undef ibv_reg_mr  // a macro that converts the access flags with a warning

namespace softverbs::device_tests {

struct destroy {
  void operator()(ibv_context* object) const { EXPECT_EQ(ibv_close_device(object), 0); }
  void operator()(ibv_pd* object) const { EXPECT_EQ(ibv_dealloc_pd(object), 0); }
  void operator()(ibv_mr* object) const { EXPECT_EQ(ibv_dereg_mr(object), 0); }
  void operator()(ibv_mw* object) const { EXPECT_EQ(ibv_dealloc_mw(object), 0); }
  void operator()(ibv_comp_channel* object) const {
    EXPECT_EQ(ibv_destroy_comp_channel(object), 0);
  }
  void operator()(ibv_cq* object) const { EXPECT_EQ(ibv_destroy_cq(object), 0); }
  void operator()(ibv_cq_ex* object) const {
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(object)), 0);
  }
  void operator()(ibv_srq* object) const { EXPECT_EQ(ibv_destroy_srq(object), 0); }
  void operator()(ibv_xrcd* object) const { EXPECT_EQ(ibv_close_xrcd(object), 0); }
  void operator()(ibv_qp* object) const { EXPECT_EQ(ibv_destroy_qp(object), 0); }
  void operator()(ibv_ah* object) const { EXPECT_EQ(ibv_destroy_ah(object), 0); }
};

template <class T>
using owned = std::unique_ptr<T, destroy>;

/// Takes over what a C function has just made; throws its errno if it made nothing.
template <class T>
[[nodiscard]] owned<T> own(T* made) {
  if (made == nullptr) throw std::system_error(errno, std::generic_category(), "nothing was made");
  return owned<T>(made);
}

inline constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND;

/// Memory and its registration.
class buffer {
 public:
  buffer(ibv_pd* pd, std::size_t bytes, int access = all_access)
      : memory_(bytes), mr(own(ibv_reg_mr(pd, memory_.data(), bytes, access))) {}

  [[nodiscard]] std::span<std::byte> bytes() { return memory_; }
  [[nodiscard]] std::span<std::byte> bytes(std::size_t offset, std::size_t count) {
    return std::span(memory_).subspan(offset, count);
  }
  [[nodiscard]] std::size_t size() const { return memory_.size(); }
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(memory_.data()) + offset;
  }
  [[nodiscard]] std::uint32_t rkey() const { return mr->rkey; }
  [[nodiscard]] ibv_sge sge() const { return sge(0, memory_.size()); }
  [[nodiscard]] ibv_sge sge(std::size_t offset, std::size_t count) const {
    return {.addr = address(offset), .length = static_cast<std::uint32_t>(count), .lkey = mr->lkey};
  }

 private:
  std::vector<std::byte> memory_;

 public:
  owned<ibv_mr> mr;
};

}  // namespace softverbs::device_tests
