#include <rdmaxx/verbs/device.hpp>

#include <cerrno>

#include <endian.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <rdmaxx/core/check.hpp>
#include <rdmaxx/verbs/context.hpp>

#include "context_block.hpp"

namespace RDMAXX_NAMESPACE {

std::string_view describe(node_type type) noexcept {
  switch (type) {
    case node_type::unknown:
      return "unknown";
    case node_type::channel_adapter:
      return "channel_adapter";
    case node_type::network_switch:
      return "switch";
    case node_type::router:
      return "router";
    case node_type::rnic:
      return "rnic";
    case node_type::usnic:
      return "usnic";
    case node_type::usnic_udp:
      return "usnic_udp";
    case node_type::unspecified:
      return "unspecified";
  }
  return "unknown";
}

std::string_view describe(transport_type type) noexcept {
  switch (type) {
    case transport_type::unknown:
      return "unknown";
    case transport_type::infiniband:
      return "infiniband";
    case transport_type::iwarp:
      return "iwarp";
    case transport_type::usnic:
      return "usnic";
    case transport_type::usnic_udp:
      return "usnic_udp";
    case transport_type::unspecified:
      return "unspecified";
  }
  return "unknown";
}

rdmaxx::guid device::guid() const noexcept {
  return rdmaxx::guid(be64toh(ibv_get_device_guid(native_)));
}

result<context> device::open() const {
  RDMAXX_TRY(auto* const native,
             check(ibv_open_device(native_), fmt::format("ibv_open_device({})", name())));
  auto opened = detail::wrap_context(native, {});
  if (!opened) ibv_close_device(native);
  return opened;
}

std::string describe(const device& dev) {
  return fmt::format("{} {} {} guid {:#018x}", dev.name(), describe(dev.node_type()),
                     describe(dev.transport()), dev.guid().value());
}

result<std::vector<device>> devices() {
  int count = 0;
  ibv_device** const raw = ibv_get_device_list(&count);
  if (raw == nullptr) {
    // ENOSYS: this kernel has no RDMA; that is "no devices", not a failure.
    if (errno == ENOSYS || errno == 0) return std::vector<device>{};
    return errno_error("ibv_get_device_list", errno);
  }
  const std::shared_ptr<void> list(
      raw, [](void* entries) { ibv_free_device_list(static_cast<ibv_device**>(entries)); });
  std::vector<device> found;
  found.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) found.push_back(device(raw[i], list));
  return found;
}

namespace {

template <class Match>
result<context> open_matching(std::string_view operation, const std::string& wanted, Match match) {
  RDMAXX_TRY(const auto list, devices());
  if (list.empty()) return detail::no_device_error(operation);
  for (const auto& dev : list) {
    if (match(dev)) return dev.open();
  }
  return errno_error(operation, ENODEV, fmt::format("there is no device {}", wanted),
                     fmt::format("available devices: {}", detail::names_of(list)));
}

}  // namespace

result<context> open_device(std::string_view name) {
  return open_matching("open_device", fmt::format("\"{}\"", name),
                       [&](const device& dev) { return dev.name() == name; });
}

result<context> open_device(rdmaxx::guid wanted) {
  return open_matching("open_device", fmt::format("with GUID {:#x}", wanted.value()),
                       [&](const device& dev) { return dev.guid() == wanted; });
}

namespace detail {

error no_device_error(std::string_view operation) {
  return errno_error(
      operation, ENODEV, "this machine has no RDMA device",
      "run the program on a software device: `rdmaxx soft -- program`, or link "
      "rdmaxx::softverbs; or create one in the kernel: `modprobe rdma_rxe && rdma link "
      "add rxe0 type rxe netdev eth0`");
}

std::string names_of(const std::vector<device>& list) {
  std::vector<std::string_view> names;
  names.reserve(list.size());
  for (const auto& dev : list) names.push_back(dev.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace detail
}  // namespace RDMAXX_NAMESPACE
