// Which attributes a transition between two states of a queue pair needs and allows, as the kernel
// decides it for every driver (chapter 10.3.1 and table 91).
#pragma once

#include <infiniband/verbs.h>

namespace softverbs::engine {

/// Whether `mask` (ibv_qp_attr_mask) may take a queue pair of this type from one state to the
/// other.
[[nodiscard]] bool transition_is_legal(ibv_qp_state from, ibv_qp_state to, ibv_qp_type type,
                                       int mask);

/// XRC queue pairs have one half only: what is said about the other half is ignored.
[[nodiscard]] int without_missing_half(ibv_qp_type type, int mask);

}  // namespace softverbs::engine
