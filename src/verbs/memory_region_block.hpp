#pragma once

// memory_region_block: the state behind a memory_region, with the buffer of an owned_region.

#include <cstddef>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/verbs/protection_domain.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// Pages of its own, unmapped by the destructor.
class page_buffer {
 public:
  page_buffer() noexcept = default;
  page_buffer(void* start, std::size_t bytes) noexcept : start_(start), bytes_(bytes) {}
  page_buffer(page_buffer&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  page_buffer& operator=(page_buffer&& other) noexcept {
    std::swap(start_, other.start_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  page_buffer(const page_buffer&) = delete;
  page_buffer& operator=(const page_buffer&) = delete;
  ~page_buffer() {
    if (start_ != nullptr) ::munmap(start_, bytes_);
  }

  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte*>(start_), bytes_};
  }

 private:
  void* start_ = nullptr;
  std::size_t bytes_ = 0;
};

class memory_region_block final : public native_resource<ibv_mr> {
 public:
  memory_region_block(protection_domain pd, page_buffer buffer)
      : native_resource(ibv_dereg_mr, "ibv_dereg_mr"),
        parent_(std::move(pd)),
        buffer_(std::move(buffer)) {}

 private:
  [[nodiscard]] std::string name() const override {
    return fmt::format("memory_region lkey {:#x} on {}", native->lkey,
                       parent_.context().device_name());
  }

  const protection_domain parent_;
  // Destroyed with the block, which happens only after a successful deregistration.
  page_buffer buffer_;
};

}  // namespace RDMAXX_NAMESPACE::detail
