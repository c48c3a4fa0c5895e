#pragma once

// context: an open device, the root from which all verbs objects are created.
//
//   auto ctx = open_device("rxe0").value();
//   auto pd = ctx.alloc_pd().value();
//   auto cq = ctx.create_cq({.capacity = 64}).value();
//
// Lifetime: copies share one open device; it is closed when the last copy and everything created
// from it have been destroyed. Threads: every member may be called from any thread at any time.
// Fork: after fork the child must not use a context (or anything created from it), but open its
// own. All descriptors are close-on-exec. See docs/thread-safety.md.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/device.hpp>
#include <rdmaxx/verbs/device_attributes.hpp>
#include <rdmaxx/verbs/gid.hpp>
#include <rdmaxx/verbs/port_attributes.hpp>

namespace RDMAXX_NAMESPACE {

class protection_domain;
class completion_channel;
class completion_queue;
class async_event_queue;
struct completion_queue_config;

class context : public shared_handle<ibv_context> {
 public:
  context() noexcept = default;

  /// Takes over a context that was opened elsewhere, such as rdma_cm_id::verbs (borrowed).
  [[nodiscard]] static result<context> adopt(ibv_context* native, adoption how = {});

  [[nodiscard]] std::string_view device_name() const noexcept;
  [[nodiscard]] transport_type transport() const noexcept;

  /// Limits and capabilities, including the extended ones where the driver has them.
  [[nodiscard]] result<device_attributes> query_device() const;
  [[nodiscard]] result<port_attributes> query_port(std::uint8_t port = 1) const;
  /// All ports of the device.
  [[nodiscard]] result<std::vector<port_attributes>> query_ports() const;
  [[nodiscard]] result<gid> query_gid(std::uint8_t port, std::uint32_t index) const;
  /// Every GID in use, of all ports.
  [[nodiscard]] result<std::vector<gid_entry>> query_gid_table() const;
  [[nodiscard]] result<pkey> query_pkey(std::uint8_t port, std::uint16_t index) const;

  [[nodiscard]] result<protection_domain> alloc_pd() const;
  [[nodiscard]] result<completion_channel> create_completion_channel() const;
  [[nodiscard]] result<completion_queue> create_cq(const completion_queue_config& config) const;

  /// The device's asynchronous events: port changes, failed queue pairs …
  [[nodiscard]] result<async_event_queue> async_events() const;

 private:
  friend struct detail::handle_access;
  using shared_handle::shared_handle;

  [[nodiscard]] result<void> check_port(std::uint8_t port, std::string_view operation) const;
};
/// "rxe0 (infiniband)"
[[nodiscard]] std::string describe(const context& ctx);

}  // namespace RDMAXX_NAMESPACE
