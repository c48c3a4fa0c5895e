#pragma once

// wait_for_cm_event: waits on an identifier's own channel for the event that a step must end with.

#include <rdmaxx/cm/cm_event.hpp>
#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/result.hpp>

#include "cm/time_until.hpp"

namespace RDMAXX_NAMESPACE::detail {

using deadline = library_clock::time_point;

/// The event `wanted`, or why it did not arrive. Ignores events that end no step.
[[nodiscard]] result<cm_event> wait_for_cm_event(const cm_id& id, cm_event_type wanted,
                                                 deadline end);

}  // namespace RDMAXX_NAMESPACE::detail
