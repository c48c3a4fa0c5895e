#pragma once

// pick_device: which device, port and GID to use, and why.
//
//   auto choice = pick_device({.route_to = "10.0.0.7"}).value();
//   fmt::print("{}\n", choice.describe());     // rxe0 port 1 gid 1 (::ffff:10.0.0.1, roce_v2): …
//   auto ctx = choice.context();
//
// Every given criterion must be met. Among the devices that meet them, one with an active port
// wins, then the one with the best GID: RoCEv2 before v1, the wanted address family, a global
// address before a link-local one.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/gid.hpp>

namespace RDMAXX_NAMESPACE {

struct device_query {
  std::string name{};                  ///< the device's name
  std::optional<rdmaxx::guid> guid{};  ///< its node GUID
  std::optional<rdmaxx::gid> gid{};    ///< a GID that it has
  std::string subnet{};                ///< it has an address in this subnet: "10.77.0.0/24"
  std::string route_to{};              ///< the kernel routes this address through its netdev
  std::optional<std::uint8_t> port{};  ///< only this port
  /// Only devices of this kind; for example, iWARP queue pairs cannot be connected by hand.
  std::optional<transport_type> transport{};
};
[[nodiscard]] std::string describe(const device_query& query);

class device_choice {
 public:
  device_choice(rdmaxx::context ctx, gid_entry entry, std::string reason)
      : context_(std::move(ctx)), entry_(std::move(entry)), reason_(std::move(reason)) {}

  [[nodiscard]] const rdmaxx::context& context() const noexcept { return context_; }
  [[nodiscard]] std::uint8_t port() const noexcept { return entry_.port; }
  [[nodiscard]] std::uint32_t gid_index() const noexcept { return entry_.index; }
  [[nodiscard]] const gid_entry& entry() const noexcept { return entry_; }
  /// The choice and its reason in one line.
  [[nodiscard]] std::string describe() const;

 private:
  rdmaxx::context context_;
  gid_entry entry_;
  std::string reason_;
};
[[nodiscard]] std::string describe(const device_choice& choice);

/// Picks among this machine's devices; with an empty query, the best one.
[[nodiscard]] result<device_choice> pick_device(const device_query& query = {});

/// The source GID on `port`, by the order above. `peer` sets the wanted address family.
[[nodiscard]] result<gid_entry> pick_gid(const context& ctx, std::uint8_t port,
                                         const std::optional<gid>& peer = {});

}  // namespace RDMAXX_NAMESPACE
