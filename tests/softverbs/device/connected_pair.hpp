#pragma once

// connected_pair: two connected queue pairs in one process, each with what belongs to it; and the
// steps that lead there, for tests that go them one by one.

#include <cstddef>
#include <cstdint>

#include <infiniband/verbs.h>

#include "owned.hpp"

namespace softverbs::device_tests {

inline constexpr unsigned remote_access =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr std::uint32_t queue_key = 0x11111111;
inline constexpr std::size_t grh_bytes = 40;
inline constexpr std::uint8_t ipv4_index = 1;
inline constexpr std::uint8_t ipv6_index = 2;

struct pair_options {
  ibv_qp_type type = IBV_QPT_RC;
  ibv_qp_cap capacities{.max_send_wr = 64,
                        .max_recv_wr = 64,
                        .max_send_sge = 4,
                        .max_recv_sge = 4,
                        .max_inline_data = 128};
  bool signal_all = false;
  int cq_entries = 256;
  bool with_channel = false;          ///< both completion queues of a side send their events to it
  std::uint32_t srq_requests = 0;     ///< not 0: receives come from a shared queue of that capacity
  std::uint64_t send_ops = 0;         ///< not 0: an extended queue pair
  ibv_cq* all_completions = nullptr;  ///< instead of completion queues for each direction
  ibv_pd* same_domain = nullptr;      ///< instead of a protection domain for each side

  unsigned access = remote_access;
  std::uint8_t gid_index = ipv4_index;
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint32_t first_psn = 0xfffffe;  ///< they wrap around soon
  std::uint8_t max_rd_atomic = 16;
  std::uint8_t max_dest_rd_atomic = 16;
  std::uint8_t min_rnr_timer = 1;  ///< 10 µs
  std::uint8_t timeout = 17;       ///< half a second
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;
};

/// soft0, anew.
[[nodiscard]] owned<ibv_context> open_device();
[[nodiscard]] ibv_gid gid_of(ibv_context* context, int index);

/// One side of a connection.
struct side {
  explicit side(ibv_context* context, const pair_options& options = {});

  [[nodiscard]] ibv_pd* domain() const { return qp->pd; }

  owned<ibv_pd> pd;
  owned<ibv_comp_channel> channel;
  owned<ibv_cq> send_cq;
  owned<ibv_cq> recv_cq;
  owned<ibv_srq> srq;
  owned<ibv_qp> qp;
};

/// The arguments of ibv_modify_qp.
struct modification {
  ibv_qp_attr attributes{};
  int mask = 0;

  /// What ibv_modify_qp returns.
  [[nodiscard]] int apply(ibv_qp* qp) {  // NOLINT(readability-make-member-function-const)
    return ibv_modify_qp(qp, &attributes, mask);
  }
};
[[nodiscard]] modification to_init(ibv_qp_type type, const pair_options& options = {});
/// `peer` has no meaning for UD.
[[nodiscard]] modification to_rtr(ibv_context* context, ibv_qp_type type, std::uint32_t peer,
                                  const pair_options& options = {});
[[nodiscard]] modification to_rts(ibv_qp_type type, const pair_options& options = {});
/// RESET, SQD, ERR, or back to RTS.
[[nodiscard]] modification to_state(ibv_qp_state state);

/// RESET to RTS; throws if a step fails.
void connect(ibv_qp* qp, std::uint32_t peer, const pair_options& options = {});
[[nodiscard]] ibv_qp_state state_of(ibv_qp* qp);
[[nodiscard]] ibv_qp_attr attributes_of(ibv_qp* qp);

/// To a neighbour on the same port.
[[nodiscard]] owned<ibv_ah> address_of_neighbour(ibv_pd* pd, std::uint8_t gid_index = ipv4_index);

/// Two sides that are connected (UD: ready), with a context of their own or in a given one.
struct connected_pair {
  explicit connected_pair(const pair_options& options = {});
  explicit connected_pair(ibv_context* existing, const pair_options& options = {});

  owned<ibv_context> own_context;
  ibv_context* context;
  side a;
  side b;
};

}  // namespace softverbs::device_tests
