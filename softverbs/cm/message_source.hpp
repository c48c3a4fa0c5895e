// Whether a message of the connection manager comes from the process that it claims to come from.
//
// Within a host the kernel reports the sender's address and UDP port, and the port is the upper
// half of the sender's comm id. So no process can speak for the connection of another. Between
// hosts the network is trusted, as everywhere in RoCE.
#pragma once

#include <engine/management.hpp>

namespace softverbs::cm {

[[nodiscard]] bool is_believable(const engine::management_datagram& datagram, bool source_is_local);

}  // namespace softverbs::cm
