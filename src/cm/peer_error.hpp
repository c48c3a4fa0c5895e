#pragma once

// as_peer_error: the failure of a peer that was accepted but never became established.

#include <rdmaxx/core/error.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// Of category peer. Its code is never ETIMEDOUT, which is reserved for "no connection in time".
[[nodiscard]] error as_peer_error(const error& failure);

}  // namespace RDMAXX_NAMESPACE::detail
