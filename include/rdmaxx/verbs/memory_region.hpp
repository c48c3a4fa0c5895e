#pragma once

// memory_region, owned_region: memory that the device may access.
//
//   std::vector<std::byte> buffer(4096);
//   auto mr = pd.register_local(buffer).value();               // only the local device
//   auto shared = pd.register_shared(unsafe, buffer, access::remote_read).value();   // peers, too
//   qp.post(send_wr{.from = mr.gather(std::span(buffer).first(64))}).value();
//
// gather() and scatter() check that the bytes lie inside the region and fit the 32 bits of an
// element; like std::vector::at they throw exception{misuse}. The try_ forms return a result, the
// _unchecked ones trust the caller. The elements of a zero-based region count from its start, as
// the device does.
//
// Lifetime: a memory_region does not own its buffer, which must outlive it and every operation on
// it. An owned_region does: the buffer is unmapped after deregistration, and leaked if that fails.
// Destroying a region with operations in flight makes them fail, and possibly the queue pair with
// them; it never lets the device write to memory that is no longer registered. Threads: const
// members may be called from any thread. The caller synchronises access to the bytes; the device
// counts as one more thread.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/access.hpp>
#include <rdmaxx/verbs/remote_address.hpp>
#include <rdmaxx/verbs/scatter_gather.hpp>

namespace RDMAXX_NAMESPACE {

class protection_domain;

class memory_region : public unique_handle<ibv_mr> {
 public:
  memory_region() noexcept = default;

  /// Takes over a region that was registered elsewhere in `pd`. The device does not report its
  /// access rights: `access` must be those it was registered with.
  [[nodiscard]] static result<memory_region> adopt(ibv_mr* native, const protection_domain& pd,
                                                   access_flags access, adoption how = {});

  [[nodiscard]] rdmaxx::lkey lkey() const noexcept { return rdmaxx::lkey(live()->lkey); }
  [[nodiscard]] rdmaxx::rkey rkey() const noexcept { return rdmaxx::rkey(live()->rkey); }
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(live()->addr); }
  [[nodiscard]] std::size_t size() const noexcept { return live()->length; }
  [[nodiscard]] access_flags access() const noexcept { return access_; }
  /// The bytes of the region. Those of a read-only registration must not be written.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data(), size()}; }

  /// The whole region, for the device to read.
  [[nodiscard]] gather_element gather() const { return gather(bytes()); }
  [[nodiscard]] gather_element gather(std::span<const std::byte> bytes) const {
    if (!holds(bytes)) [[unlikely]]
      throw_outside(bytes, "gather");
    return {place_of(bytes.data()), bytes.size(), live()->lkey};
  }
  [[nodiscard]] result<gather_element> try_gather(std::span<const std::byte> bytes) const {
    if (!holds(bytes)) [[unlikely]]
      return outside(bytes, "gather");
    return gather_element{place_of(bytes.data()), bytes.size(), live()->lkey};
  }
  /// Only for regions that are not zero-based.
  [[nodiscard]] gather_element gather_unchecked(std::span<const std::byte> bytes) const noexcept {
    detail::expect(!zero_based(), in_zero_based_region, use_the_checked_one);
    return {reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), live()->lkey};
  }

  /// The whole region, for the device to write.
  [[nodiscard]] scatter_element scatter() const { return scatter(bytes()); }
  [[nodiscard]] scatter_element scatter(std::span<std::byte> bytes) const {
    if (!writable() || !holds(bytes)) [[unlikely]]
      throw_outside(bytes, "scatter");
    return {place_of(bytes.data()), bytes.size(), live()->lkey};
  }
  [[nodiscard]] result<scatter_element> try_scatter(std::span<std::byte> bytes) const {
    if (!writable() || !holds(bytes)) [[unlikely]]
      return outside(bytes, "scatter");
    return scatter_element{place_of(bytes.data()), bytes.size(), live()->lkey};
  }
  /// Only for regions that are not zero-based.
  [[nodiscard]] scatter_element scatter_unchecked(std::span<std::byte> bytes) const noexcept {
    detail::expect(!zero_based(), in_zero_based_region, use_the_checked_one);
    return {reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), live()->lkey};
  }

  /// What a peer needs to access the byte at `offset`, which is at most the region's end.
  [[nodiscard]] remote_address remote(std::size_t offset = 0) const;

 protected:
  friend struct detail::handle_access;
  memory_region(ibv_mr* native, detail::reference block, access_flags access) noexcept
      : unique_handle(native, std::move(block)), access_(access) {}

 private:
  static constexpr const char* in_zero_based_region = "was called on a zero-based region";
  static constexpr const char* use_the_checked_one = "use gather() or scatter(), which know";

  [[nodiscard]] bool zero_based() const noexcept { return access_.has(access::zero_based); }
  /// As the device counts: from the start of a zero-based region, else the virtual address.
  [[nodiscard]] std::uint64_t place_of(const std::byte* first) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(first);
    return zero_based() ? address - reinterpret_cast<std::uintptr_t>(data()) : address;
  }
  [[nodiscard]] bool writable() const noexcept { return access_.has(access::local_write); }
  [[nodiscard]] bool holds(std::span<const std::byte> bytes) const noexcept {
    const std::size_t offset = static_cast<std::size_t>(
        reinterpret_cast<std::uintptr_t>(bytes.data()) - reinterpret_cast<std::uintptr_t>(data()));
    // The offset of an address before the region wraps around and is too large.
    return offset <= size() && bytes.size() <= size() - offset &&
           bytes.size() <= std::numeric_limits<std::uint32_t>::max();
  }
  [[nodiscard, gnu::cold]] error outside(std::span<const std::byte> bytes,
                                         std::string_view operation) const;
  [[noreturn, gnu::cold]] void throw_outside(std::span<const std::byte> bytes,
                                             std::string_view operation) const;

  access_flags access_{};
};

/// A region that owns its page-aligned buffer.
class owned_region : public memory_region {
 public:
  owned_region() noexcept = default;

 private:
  friend struct detail::handle_access;
  using memory_region::memory_region;
};

[[nodiscard]] std::string describe(const memory_region& region);

}  // namespace RDMAXX_NAMESPACE
