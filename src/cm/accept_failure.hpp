#pragma once

// Why a step of accepting failed. If the peer has gone away meanwhile, the C functions only report
// "invalid argument"; the identifier's events say more.

#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/core/error.hpp>

#include "cm/peer_error.hpp"

namespace RDMAXX_NAMESPACE::detail {

/// An error that says that the peer has gone, if it has; otherwise the failure itself.
[[nodiscard]] error accept_failure(const error& failure, const cm_id& id);

}  // namespace RDMAXX_NAMESPACE::detail
