// Packets out: where the packets of one burst leave.
#pragma once

#include <cstddef>
#include <span>

#include <sys/uio.h>
#include <wire/packet.hpp>

namespace softverbs::transport {

/// Owner: the front end. The transport calls flush() before it returns to its caller, so a sink
/// that collects packets holds none afterwards.
class packet_sink {
 public:
  /// Whether a packet with so much payload would not be lost right here.
  [[nodiscard]] virtual bool has_room(std::size_t payload) const = 0;
  /// Whether the receiver reports what it has taken, also where the service has no
  /// acknowledgements (docs/softverbs.md, "Who moves the packets").
  [[nodiscard]] virtual bool is_flow_controlled() const = 0;
  /// The payload stays in place until flush(). Padding is the sink's business.
  virtual void add(const wire::headers& header, std::span<const iovec> payload) = 0;
  virtual void flush() = 0;

 protected:
  ~packet_sink() = default;
};

}  // namespace softverbs::transport
