#pragma once

// device: the RDMA devices of this machine, before they are opened.
//
//   for (const device& d : devices().value()) fmt::print("{}\n", d);
//   context ctx = open_device("rxe0").value();
//
// Threads: devices() and open_device() may be called from any thread; a device is a cheap immutable
// value.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>

#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

class context;

enum class node_type : std::int8_t {
  unknown = IBV_NODE_UNKNOWN,
  channel_adapter = IBV_NODE_CA,
  network_switch = IBV_NODE_SWITCH,
  router = IBV_NODE_ROUTER,
  rnic = IBV_NODE_RNIC,
  usnic = IBV_NODE_USNIC,
  usnic_udp = IBV_NODE_USNIC_UDP,
  unspecified = IBV_NODE_UNSPECIFIED,
};
[[nodiscard]] std::string_view describe(node_type type) noexcept;

enum class transport_type : std::int8_t {
  unknown = IBV_TRANSPORT_UNKNOWN,
  infiniband = IBV_TRANSPORT_IB,  ///< InfiniBand and RoCE
  iwarp = IBV_TRANSPORT_IWARP,
  usnic = IBV_TRANSPORT_USNIC,
  usnic_udp = IBV_TRANSPORT_USNIC_UDP,
  unspecified = IBV_TRANSPORT_UNSPECIFIED,
};
[[nodiscard]] std::string_view describe(transport_type type) noexcept;

class device {
 public:
  [[nodiscard]] std::string_view name() const noexcept { return native_->name; }
  [[nodiscard]] rdmaxx::guid guid() const noexcept;
  [[nodiscard]] rdmaxx::node_type node_type() const noexcept {
    return rdmaxx::node_type(native_->node_type);
  }
  [[nodiscard]] transport_type transport() const noexcept {
    return transport_type(native_->transport_type);
  }
  [[nodiscard]] ibv_device* native() const noexcept { return native_; }

  [[nodiscard]] result<context> open() const;

 private:
  friend result<std::vector<device>> devices();
  device(ibv_device* native, std::shared_ptr<void> list)
      : native_(native), list_(std::move(list)) {}

  ibv_device* native_;
  std::shared_ptr<void> list_;  // an ibv_device may be used while the list that named it exists
};
[[nodiscard]] std::string describe(const device& dev);

/// All devices; an empty list if there are none (also where the kernel has no RDMA at all).
[[nodiscard]] result<std::vector<device>> devices();

/// Opens a device by its name. For an unknown name, the error lists the available devices.
[[nodiscard]] result<context> open_device(std::string_view name);
/// Opens the device with this node GUID.
[[nodiscard]] result<context> open_device(rdmaxx::guid wanted);

namespace detail {
/// The hint for a machine without devices.
[[nodiscard]] error no_device_error(std::string_view operation);
/// "rxe0, siw0"
[[nodiscard]] std::string names_of(const std::vector<device>& list);
}  // namespace detail

}  // namespace RDMAXX_NAMESPACE
