#include <files/soft_devices.hpp>

#include <engine/traffic_counters.hpp>
#include <unistd.h>
#include <verbs/port.hpp>
#include <verbs/soft_verbs.hpp>

namespace softverbs::files {
namespace {

// Far above the minor numbers that the kernel gives.
constexpr std::uint32_t first_minor = 1U << 19;

device brief(const verbs::present_device& one) {
  device told;
  told.name = one.name;
  told.dev_name = one.dev_name;
  told.minor = first_minor | (one.netdev.index & (first_minor - 1));
  told.guid = one.guid;
  told.netdev = one.netdev.name;
  return told;
}

void add_counters(device& told, unsigned netdev_index) {
  const auto& traffic = engine::traffic_counters::of(netdev_index);
  const auto sent = traffic.sent();
  const auto received = traffic.received();
  constexpr unsigned word = 4;  // 16.1.3.5: data is counted in words
  told.counters = {{"port_rcv_data", received.bytes / word},
                   {"port_rcv_packets", received.packets},
                   {"port_xmit_data", sent.bytes / word},
                   {"port_xmit_packets", sent.packets}};
  // What a link has and this one has not.
  for (const auto* const none :
       {"excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
        "local_link_integrity_errors", "port_rcv_constraint_errors", "port_rcv_errors",
        "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors",
        "port_xmit_constraint_errors", "port_xmit_discards", "port_xmit_wait", "symbol_error",
        "VL15_dropped"}) {
    told.counters.emplace_back(none, 0);
  }
  told.hw_counters = {{"rcvd_pkts", received.packets}, {"sent_pkts", sent.packets}};
}

device whole(const verbs::present_device& one) {
  auto told = brief(one);
  told.port = verbs::describe_port(one.netdev, one.netdev.up);
  for (const auto& row : net::gid_table(one.netdev)) told.gids.push_back(row.gid);
  add_counters(told, one.netdev.index);
  const auto processors = ::sysconf(_SC_NPROCESSORS_CONF);
  told.processors = processors > 0 ? static_cast<unsigned>(processors) : 1;
  return told;
}

}  // namespace

std::vector<device> devices_for(std::string_view path) {
  const bool with_dots = path.contains("/.") || path.contains("//");  // it may name several
  const auto named = device_part(path);
  std::vector<device> found;
  for (const auto& each : verbs::present_devices()) {
    const bool meant = with_dots || named == each.name || named == each.dev_name;
    found.push_back(meant ? whole(each) : brief(each));
  }
  return found;
}

}  // namespace softverbs::files
