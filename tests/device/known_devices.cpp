#include "known_devices.hpp"

#include <array>

namespace rdmaxx::device_tests {

namespace {

using enum capability;

struct known_device {
  std::string_view prefix;
  std::set<capability> required;
};

const std::array known_devices{
    known_device{"soft",
                 {manual_connection,
                  self_connection,
                  uc,
                  ud,
                  atomics,
                  immediate_data,
                  inline_data,
                  several_read_elements,
                  zero_based_regions,
                  resize_cq,
                  solicited_events,
                  receiver_not_ready,
                  remote_error_reports,
                  remote_read_enforced,
                  retry_limit,
                  truthful_state,
                  send_queue_drained_event,
                  cq_overflow_event,
                  ip_gids,
                  ipv6_gids,
                  pkeys,
                  faults}},
    known_device{"rxe",
                 {manual_connection,
                  self_connection,
                  uc,
                  ud,
                  atomics,
                  immediate_data,
                  inline_data,
                  several_read_elements,
                  resize_cq,
                  solicited_events,
                  receiver_not_ready,
                  remote_error_reports,
                  remote_read_enforced,
                  retry_limit,
                  truthful_state,
                  send_queue_drained_event,
                  cq_overflow_event,
                  ip_gids,
                  ipv6_gids,
                  pkeys}},
    known_device{"siw", {inline_data, cq_overflow_event}},
};

}  // namespace

const std::set<capability>& required_of(std::string_view device) {
  static const std::set<capability> nothing;
  for (const auto& [prefix, required] : known_devices) {
    if (device.starts_with(prefix)) return required;
  }
  return nothing;
}

}  // namespace rdmaxx::device_tests
