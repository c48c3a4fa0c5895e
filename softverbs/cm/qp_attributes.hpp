// What the queue pair of a connection needs in each of its states, and how it gets there.
#pragma once

#include <optional>

#include <cm/addressing.hpp>
#include <cm/connection.hpp>
#include <infiniband/verbs.h>

namespace softverbs::cm {

/// The attributes for the state in `attributes`. `terms` are those of the connection, if there is
/// one; datagram queue pairs have none. Returns 0 or an errno.
[[nodiscard]] int describe_qp(const addressing& address, bool is_datagram,
                              const std::optional<connection_terms>& terms, ibv_qp_attr& attributes,
                              int& mask);

/// Brings a connected queue pair from INIT to RTS. Returns 0 or an errno.
[[nodiscard]] int make_qp_ready(ibv_qp* qp, const addressing& address,
                                const connection_terms& terms);
/// Moves it to the error state.
void fail_qp(ibv_qp* qp);

}  // namespace softverbs::cm
