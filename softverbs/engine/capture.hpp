// SOFTVERBS_CAPTURE: what this process sends and receives, in a file. Any thread may call this.
#pragma once

#include <cstddef>
#include <span>

#include <wire/icrc.hpp>
#include <wire/pcap.hpp>

namespace softverbs::engine {

/// Null if nothing is to be recorded.
[[nodiscard]] wire::pcap_writer* capture();

/// Records a packet that came in, unless this process sent it itself: then it has been recorded.
/// `datagram` is what follows the UDP header, as far as the ICRC.
void capture_received(const wire::flow& flow, std::span<const std::byte> datagram);

}  // namespace softverbs::engine
