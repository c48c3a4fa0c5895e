#pragma once

// qp_attributes: the attributes of a queue pair, as queried or to be modified.
//
// Every attribute is optional; those that are set form the mask of ibv_modify_qp. So attributes and
// mask cannot disagree.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <infiniband/verbs.h>

#include <rdmaxx/core/flags.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/verbs/access.hpp>
#include <rdmaxx/verbs/ack_timeout.hpp>
#include <rdmaxx/verbs/address_handle.hpp>
#include <rdmaxx/verbs/port_attributes.hpp>
#include <rdmaxx/verbs/rnr_timer.hpp>

namespace RDMAXX_NAMESPACE {

enum class qp_type : std::uint8_t {
  rc = IBV_QPT_RC,  ///< reliable, connected
  uc = IBV_QPT_UC,  ///< unreliable, connected
  ud = IBV_QPT_UD,  ///< unreliable datagrams
  raw_packet = IBV_QPT_RAW_PACKET,
  xrc_send = IBV_QPT_XRC_SEND,
  xrc_recv = IBV_QPT_XRC_RECV,
  driver = IBV_QPT_DRIVER,
};
[[nodiscard]] std::string_view describe(qp_type type) noexcept;

enum class qp_state : std::uint8_t {
  reset = IBV_QPS_RESET,
  init = IBV_QPS_INIT,  ///< receives can be posted
  rtr = IBV_QPS_RTR,    ///< ready to receive
  rts = IBV_QPS_RTS,    ///< ready to send
  sqd = IBV_QPS_SQD,    ///< send queue drained
  sqe = IBV_QPS_SQE,    ///< send queue error
  error = IBV_QPS_ERR,
  unknown = IBV_QPS_UNKNOWN,
};
[[nodiscard]] std::string_view describe(qp_state state) noexcept;

enum class migration_state : std::uint8_t {
  migrated = IBV_MIG_MIGRATED,
  rearm = IBV_MIG_REARM,
  armed = IBV_MIG_ARMED,
};
[[nodiscard]] std::string_view describe(migration_state state) noexcept;

enum class qp_attribute : std::uint32_t {
  state = IBV_QP_STATE,
  current_state = IBV_QP_CUR_STATE,
  sqd_async_notify = IBV_QP_EN_SQD_ASYNC_NOTIFY,
  access = IBV_QP_ACCESS_FLAGS,
  pkey_index = IBV_QP_PKEY_INDEX,
  port = IBV_QP_PORT,
  queue_key = IBV_QP_QKEY,
  path = IBV_QP_AV,
  path_mtu = IBV_QP_PATH_MTU,
  ack_timeout = IBV_QP_TIMEOUT,
  retry_count = IBV_QP_RETRY_CNT,
  rnr_retry = IBV_QP_RNR_RETRY,
  rq_psn = IBV_QP_RQ_PSN,
  max_rd_atomic = IBV_QP_MAX_QP_RD_ATOMIC,
  alternate_path = IBV_QP_ALT_PATH,
  min_rnr_timer = IBV_QP_MIN_RNR_TIMER,
  sq_psn = IBV_QP_SQ_PSN,
  max_dest_rd_atomic = IBV_QP_MAX_DEST_RD_ATOMIC,
  path_migration = IBV_QP_PATH_MIG_STATE,
  capabilities = IBV_QP_CAP,
  destination = IBV_QP_DEST_QPN,
  rate_limit = IBV_QP_RATE_LIMIT,
};
template <>
inline constexpr bool is_flag_enum<qp_attribute> = true;
using qp_attribute_mask = flags<qp_attribute>;
[[nodiscard]] std::string_view describe(qp_attribute attribute) noexcept;

/// The sizes of a queue pair's queues.
struct qp_capabilities {
  std::uint32_t max_send_wr = 64;
  std::uint32_t max_recv_wr = 64;
  std::uint32_t max_send_sge = 1;
  std::uint32_t max_recv_sge = 1;
  std::uint32_t max_inline = 0;  ///< bytes

  friend bool operator==(const qp_capabilities&, const qp_capabilities&) = default;
};
[[nodiscard]] std::string describe(const qp_capabilities& capabilities);

/// The alternate path, to migrate to.
struct alternate_path {
  address_vector path{};
  std::uint16_t pkey_index = 0;
  rdmaxx::ack_timeout ack_timeout = rdmaxx::ack_timeout::from_exponent(14);
};
[[nodiscard]] std::string describe(const alternate_path& path);

struct qp_attributes {
  std::optional<qp_state> state{};
  std::optional<qp_state> current_state{};
  std::optional<bool> sqd_async_notify{};
  std::optional<access_flags> access{};  ///< what peers may do through this queue pair at all
  std::optional<std::uint16_t> pkey_index{};
  std::optional<std::uint8_t> port{};
  std::optional<qkey> queue_key{};
  std::optional<address_vector> path{};
  std::optional<mtu> path_mtu{};
  std::optional<rdmaxx::ack_timeout> ack_timeout{};  ///< until a packet is retransmitted
  std::optional<std::uint8_t> retry_count{};         ///< 0…7
  std::optional<std::uint8_t> rnr_retry{};           ///< 0…6; 7: no limit
  std::optional<psn> rq_psn{};                       ///< the first one expected
  std::optional<std::uint8_t> max_rd_atomic{};       ///< this side's reads and atomics in flight
  std::optional<rdmaxx::alternate_path> alternate_path{};
  std::optional<rnr_timer> min_rnr_timer{};          ///< until a peer that found no receive retries
  std::optional<psn> sq_psn{};                       ///< the first one sent
  std::optional<std::uint8_t> max_dest_rd_atomic{};  ///< the peer's reads and atomics in flight
  std::optional<migration_state> path_migration{};
  std::optional<qp_capabilities> capabilities{};
  std::optional<qpn> destination{};
  std::optional<std::uint32_t> rate_limit_kbps{};

  /// Which attributes are set.
  [[nodiscard]] qp_attribute_mask mask() const noexcept;
  [[nodiscard]] ibv_qp_attr native() const noexcept;
  /// The attributes in `mask` of what the C API reported.
  [[nodiscard]] static qp_attributes from_native(const ibv_qp_attr& native, qp_attribute_mask mask);
};
/// Only what is set: "state=rts retry_count=7 …".
[[nodiscard]] std::string describe(const qp_attributes& attributes);

/// The attributes that the IBTA specification requires and allows for a transition.
struct qp_transition {
  bool legal = false;
  qp_attribute_mask required{};
  qp_attribute_mask optional{};
};
[[nodiscard]] std::string describe(const qp_transition& rule);
[[nodiscard]] qp_transition transition(qp_type type, qp_state from, qp_state to) noexcept;
/// Why `given` is wrong for this transition, naming the missing and the excess attributes; empty if
/// it is right.
[[nodiscard]] std::string explain_transition(qp_type type, qp_state from, qp_state to,
                                             qp_attribute_mask given);

}  // namespace RDMAXX_NAMESPACE
