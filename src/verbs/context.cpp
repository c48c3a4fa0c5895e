#include <rdmaxx/verbs/context.hpp>

#include <cerrno>
#include <memory>

#include <endian.h>
#include <fmt/format.h>
#include <net/if.h>

#include <rdmaxx/core/check.hpp>

#include "context_block.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

result<device_attributes> query_limits(ibv_context* native) {
  // Drivers without the extended query fall back to the plain one inside libibverbs; some old ones
  // fail.
  ibv_device_attr_ex extended{};
  if (ibv_query_device_ex(native, nullptr, &extended) == 0)
    return device_attributes::from_native(extended);
  ibv_device_attr plain{};
  RDMAXX_TRY(check(ibv_query_device(native, &plain), "ibv_query_device"));
  return device_attributes::from_native(plain);
}

std::string netdev_name(std::uint32_t index) {
  std::array<char, IF_NAMESIZE> name{};
  return if_indextoname(index, name.data()) != nullptr ? name.data() : "";
}

}  // namespace

result<context> detail::wrap_context(ibv_context* native, adoption how) {
  auto* const block = new context_block;
  auto ctx = handle_access::make<context>(native, reference(block));
  block->device_name = ibv_get_device_name(native->device);
  block->transport = transport_type(native->device->transport_type);
  RDMAXX_TRY(block->limits, query_limits(native));
  // Last, so that after a failure above the caller keeps the C context.
  block->native = native;
  block->adopted = std::move(how);
  return ctx;
}

result<context> context::adopt(ibv_context* native, adoption how) {
  if (native == nullptr) return misuse_error("context::adopt", "the C context is null");
  return detail::wrap_context(native, std::move(how));
}

std::string_view context::device_name() const noexcept {
  return detail::block_of(*this).device_name;
}

transport_type context::transport() const noexcept { return detail::block_of(*this).transport; }

result<device_attributes> context::query_device() const { return query_limits(live()); }

result<void> context::check_port(std::uint8_t port, std::string_view operation) const {
  const unsigned ports = detail::block_of(*this).limits.physical_ports;
  if (port >= 1 && port <= ports) return {};
  return misuse_error(operation, fmt::format("{} has no port {}", device_name(), port),
                      fmt::format("ports count from 1; {} has {}", device_name(), ports));
}

result<port_attributes> context::query_port(std::uint8_t port) const {
  RDMAXX_TRY(check_port(port, "query_port"));
  ibv_port_attr attributes{};
  RDMAXX_TRY(check(ibv_query_port(live(), port, &attributes), "ibv_query_port"));
  return port_attributes::from_native(port, attributes);
}

result<std::vector<port_attributes>> context::query_ports() const {
  std::vector<port_attributes> ports;
  for (unsigned port = 1; port <= detail::block_of(*this).limits.physical_ports; ++port) {
    RDMAXX_TRY(ports.emplace_back(), query_port(static_cast<std::uint8_t>(port)));
  }
  return ports;
}

result<gid> context::query_gid(std::uint8_t port, std::uint32_t index) const {
  RDMAXX_TRY(const auto attributes, query_port(port));
  if (index >= attributes.gid_table_length) {
    return misuse_error("query_gid",
                        fmt::format("port {} of {} has no GID {}", port, device_name(), index),
                        fmt::format("its table has {} entries", attributes.gid_table_length));
  }
  ibv_gid address{};
  RDMAXX_TRY(
      check(ibv_query_gid(live(), port, static_cast<int>(index), &address), "ibv_query_gid"));
  return gid(address);
}

result<std::vector<gid_entry>> context::query_gid_table() const {
  RDMAXX_TRY(const auto ports, query_ports());
  std::size_t capacity = 0;
  for (const auto& port : ports) capacity += port.gid_table_length;
  std::vector<ibv_gid_entry> raw(capacity);
  const auto count = ibv_query_gid_table(live(), raw.data(), raw.size(), 0);
  if (count < 0) return errno_error("ibv_query_gid_table", static_cast<int>(-count));
  raw.resize(static_cast<std::size_t>(count));

  std::vector<gid_entry> entries;
  entries.reserve(raw.size());
  for (const auto& row : raw) {
    entries.push_back(
        {.address = gid(row.gid),
         .port = static_cast<std::uint8_t>(row.port_num),
         .index = row.gid_index,
         .type = transport() == transport_type::iwarp ? gid_type::iwarp : gid_type(row.gid_type),
         .netdev_index = row.ndev_ifindex,
         .netdev = row.ndev_ifindex != 0 ? netdev_name(row.ndev_ifindex) : ""});
  }
  return entries;
}

result<pkey> context::query_pkey(std::uint8_t port, std::uint16_t index) const {
  RDMAXX_TRY(const auto attributes, query_port(port));
  if (index >= attributes.pkey_table_length) {
    return misuse_error("query_pkey",
                        fmt::format("port {} of {} has no P_Key {}", port, device_name(), index),
                        fmt::format("its table has {} entries", attributes.pkey_table_length));
  }
  __be16 key = 0;
  RDMAXX_TRY(check(ibv_query_pkey(live(), port, index, &key), "ibv_query_pkey"));
  return pkey(be16toh(key));
}

std::string describe(const context& ctx) {
  if (!ctx) return "context (empty)";
  return fmt::format("context {} ({})", ctx.device_name(), describe(ctx.transport()));
}

}  // namespace RDMAXX_NAMESPACE
