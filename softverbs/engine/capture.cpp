#include <engine/capture.hpp>

#include <base/settings.hpp>
#include <engine/netdev_port.hpp>
#include <sys/uio.h>
#include <wire/packet.hpp>

namespace softverbs::engine {

wire::pcap_writer* capture() {
  static auto* const writer =
      settings::get().capture.empty() ? nullptr : new wire::pcap_writer(settings::get().capture);
  return writer;
}

void capture_received(const wire::flow& flow, std::span<const std::byte> datagram) {
  auto* const file = capture();
  if (file == nullptr || datagram.size() < wire::icrc_bytes) return;
  if (holds_port(flow.source, flow.source_port)) return;
  const iovec summed{.iov_base = const_cast<std::byte*>(datagram.data()),
                     .iov_len = datagram.size() - wire::icrc_bytes};
  file->write(flow, {&summed, 1});
}

}  // namespace softverbs::engine
