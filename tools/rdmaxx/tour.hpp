#pragma once

// tour: the devices of this machine, then a connection between two queue pairs of the best one, a
// short ping and short transfers over it, with every byte checked.
//
// It takes a few seconds and reports each result to the tour_guest at once.

#include <string>
#include <string_view>
#include <vector>

#include "bandwidth.hpp"
#include "device_report.hpp"
#include "ping.hpp"

namespace rdmaxx::tool {

class tour_guest {
 public:
  virtual ~tour_guest() = default;

  virtual void sees_devices(const std::vector<device_report>& devices) = 0;
  virtual void sees_choice(const device_choice& choice) = 0;
  /// The tour ends here, for this reason.
  virtual void sees_end(std::string_view reason) = 0;
  virtual void sees_connection(const connection& here, const connection& there) = 0;
  virtual void sees_ping(const ping_summary& summary) = 0;
  /// Called when the bytes have been checked.
  virtual void sees_transfer(const bandwidth_wanted& wanted,
                             const bandwidth_measured& measured) = 0;
};

/// `device` is a name; empty means the best one. Throws on failure.
void tour(const std::string& device, tour_guest& guest);

}  // namespace rdmaxx::tool
