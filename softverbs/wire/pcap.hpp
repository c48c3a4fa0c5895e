// Writes RoCEv2 packets as a pcap file (link type raw IP) that tshark and Wireshark read.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include <base/descriptor.hpp>
#include <sys/uio.h>
#include <wire/icrc.hpp>

namespace softverbs::wire {

/// One file of packets. Safe to use from several threads; each packet is one write(2), so that
/// several processes can append to one file and a killed one leaves whole packets.
class pcap_writer {
 public:
  /// Opens for appending and writes the file header if the file is empty. Failing to open is
  /// logged, and the writer then does nothing.
  explicit pcap_writer(const std::string& path);

  /// `parts` run from the BTH to the pad. Prepends IP and UDP headers as they would stand on the
  /// wire and appends the right ICRC.
  void write(const flow& packet_flow, std::span<const iovec> parts);

 private:
  std::mutex mutex_;
  descriptor fd_;
};

}  // namespace softverbs::wire
