#pragma once

// protection_domain: groups the queue pairs and memory regions that may be used together.
//
// Lifetime: copies share one domain; everything created from it keeps it alive. Threads: every
// member may be called from any thread at any time.

#include <cstddef>
#include <span>
#include <string>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/core/unsafe.hpp>
#include <rdmaxx/verbs/access.hpp>
#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/memory_region.hpp>

namespace RDMAXX_NAMESPACE {

class queue_pair;
class shared_receive_queue;
class address_handle;
class work_completion;
struct queue_pair_config;
struct shared_receive_queue_config;
struct address_vector;

/// How an owned_region gets its buffer.
struct owned_region_config {
  std::size_t bytes = 0;    ///< the buffer is rounded up to whole pages
  bool huge_pages = false;  ///< from the system's reserved huge pages; an error if there are none
};
[[nodiscard]] std::string describe(const owned_region_config& wanted);

class protection_domain : public shared_handle<ibv_pd> {
 public:
  protection_domain() noexcept = default;

  /// Takes over a domain that was allocated elsewhere on `ctx`'s device.
  [[nodiscard]] static result<protection_domain> adopt(ibv_pd* native, const rdmaxx::context& ctx,
                                                       adoption how = {});

  [[nodiscard]] const rdmaxx::context& context() const noexcept;

  /// Memory for the local device only: sends from it, receives and read results into it. Safe: no
  /// peer can reach it.
  [[nodiscard]] result<memory_region> register_local(std::span<std::byte> buffer) const;
  /// Memory that the local device only reads; it may be mapped read-only.
  [[nodiscard]] result<memory_region> register_readonly(std::span<const std::byte> buffer) const;
  /// Memory that peers may access as `access` says, at any time until the region is destroyed: the
  /// caller makes sure that other code can cope with that. local_write is added where remote writes
  /// need it.
  [[nodiscard]] result<memory_region> register_shared(unsafe_t, std::span<std::byte> buffer,
                                                      access_flags access) const;

  /// A region with a zeroed buffer of its own.
  [[nodiscard]] result<owned_region> allocate_local(const owned_region_config& wanted) const;
  [[nodiscard]] result<owned_region> allocate_shared(unsafe_t, const owned_region_config& wanted,
                                                     access_flags access) const;

  [[nodiscard]] result<queue_pair> create_qp(const queue_pair_config& config) const;
  [[nodiscard]] result<shared_receive_queue> create_srq(
      const shared_receive_queue_config& config) const;

  /// A destination for UD sends.
  [[nodiscard]] result<address_handle> create_ah(const address_vector& destination) const;
  /// The path back to the sender of a received datagram, whose first 40 bytes (the GRH) are `grh`.
  [[nodiscard]] result<address_handle> create_ah(const work_completion& received,
                                                 std::span<const std::byte> grh,
                                                 std::uint8_t port = 1) const;

 private:
  friend struct detail::handle_access;
  using shared_handle::shared_handle;
};
[[nodiscard]] std::string describe(const protection_domain& pd);

}  // namespace RDMAXX_NAMESPACE
