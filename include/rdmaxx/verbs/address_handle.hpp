#pragma once

// address_vector, address_handle: the path to a peer.
//
// An address_vector is a description (also part of a connected queue pair's attributes); an
// address_handle is the device's object made from it, needed for UD sends.
//
// Lifetime: an address_handle must outlive the posting of the sends that name it (not their
// completion). Threads: it may be used by several threads at once.

#include <cstdint>
#include <string>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/verbs/gid.hpp>

namespace RDMAXX_NAMESPACE {

struct address_vector {
  std::uint8_t port = 1;              ///< the local port to send from
  bool global = true;                 ///< with a GRH; always so on RoCE
  gid destination{};                  ///< used if global
  std::uint8_t source_gid_index = 0;  ///< used if global
  lid destination_lid{};              ///< InfiniBand only
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
  std::uint8_t source_path_bits = 0;
  std::uint8_t static_rate = 0;

  [[nodiscard]] ibv_ah_attr native() const noexcept;
  [[nodiscard]] static address_vector from_native(const ibv_ah_attr& native) noexcept;
};
[[nodiscard]] std::string describe(const address_vector& way);

class address_handle : public unique_handle<ibv_ah> {
 public:
  address_handle() noexcept = default;

 private:
  friend struct detail::handle_access;
  using unique_handle::unique_handle;
};
[[nodiscard]] std::string describe(const address_handle& ah);

}  // namespace RDMAXX_NAMESPACE
