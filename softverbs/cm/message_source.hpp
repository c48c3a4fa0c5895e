// Whether a message of the connection manager comes from where it says it does.
//
// Within a host the kernel tells a sender's address and UDP port, and the port stands in the upper
// half of the sender's communication identifier. So nobody can speak for the connection of another
// process. Between hosts the network is trusted, as RoCE does.
#pragma once

#include <engine/management.hpp>

namespace softverbs::cm {

[[nodiscard]] bool is_believable(const engine::management_datagram& datagram, bool source_is_local);

}  // namespace softverbs::cm
