// 01: which RDMA devices does this machine have?
//
// devices() lists them without opening any. An opened device (a `context`) shows more: its ports,
// and each port's GIDs, which are its addresses for peers. Every type of the library can be
// formatted, and every function that can fail returns a result, whose value() throws the error.

#include <cstdlib>
#include <exception>

#include <fmt/format.h>

#include <rdmaxx/rdmaxx.hpp>

namespace {

void print(const rdmaxx::device& device) {
  fmt::print("{}\n", device);
  const rdmaxx::context context = device.open().value();
  const auto gids = context.query_gid_table().value();
  for (const auto& port : context.query_ports().value()) {
    fmt::print("  port {}: {}, {}, mtu {}\n", port.number, port.state, port.link_layer,
               port.active_mtu);
    for (const auto& gid : gids) {
      if (gid.port != port.number) continue;
      fmt::print("    gid {}: {} ({}){}{}\n", gid.index, gid.address, gid.type,
                 gid.netdev.empty() ? "" : " on ", gid.netdev);
    }
  }
}

}  // namespace

int main() {
  try {
    const auto devices = rdmaxx::devices().value();
    for (const auto& device : devices) print(device);
    // devices() does not fail if there are none; pick_device() does, and its error says what to do.
    if (const auto choice = rdmaxx::pick_device(); devices.empty() && !choice) {
      fmt::print("no RDMA devices; {}\n", choice.error().hint());
    }
    return EXIT_SUCCESS;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "01_devices: {}\n", failure.what());
    return EXIT_FAILURE;
  }
}
