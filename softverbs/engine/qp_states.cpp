#include <engine/qp_states.hpp>

#include <optional>

namespace softverbs::engine {
namespace {

struct attribute_sets {
  int required = 0;
  int optional = 0;
};

constexpr int connected_path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int responder_limits = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int requester_limits =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

bool receives_reliably(ibv_qp_type type) { return type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV; }
bool sends_reliably(ibv_qp_type type) { return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND; }

std::optional<attribute_sets> sets(ibv_qp_state from, ibv_qp_state to, ibv_qp_type type) {
  const bool datagrams = type == IBV_QPT_UD;
  const int own = IBV_QP_PKEY_INDEX | IBV_QP_PORT | (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  const int changes = datagrams ? IBV_QP_QKEY
                                : IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
                                      (receives_reliably(type) ? IBV_QP_MIN_RNR_TIMER : 0);
  if (to == IBV_QPS_RESET) return attribute_sets{};
  if (to == IBV_QPS_ERR && from != IBV_QPS_RESET) return attribute_sets{};
  switch (from) {
    case IBV_QPS_RESET:
      if (to == IBV_QPS_INIT) return attribute_sets{.required = own};
      break;
    case IBV_QPS_INIT:
      if (to == IBV_QPS_INIT) return attribute_sets{.optional = own};
      if (to == IBV_QPS_RTR) {
        if (datagrams) return attribute_sets{.optional = IBV_QP_PKEY_INDEX | IBV_QP_QKEY};
        return attribute_sets{
            .required = connected_path | (receives_reliably(type) ? responder_limits : 0),
            .optional = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX};
      }
      break;
    case IBV_QPS_RTR:
      if (to == IBV_QPS_RTS) {
        int needed = 0;
        if (sends_reliably(type)) needed = requester_limits;
        if (type == IBV_QPT_XRC_RECV) needed = IBV_QP_TIMEOUT;
        return attribute_sets{.required = IBV_QP_SQ_PSN | needed,
                              .optional = IBV_QP_CUR_STATE | changes};
      }
      break;
    case IBV_QPS_RTS:
      if (to == IBV_QPS_RTS) return attribute_sets{.optional = IBV_QP_CUR_STATE | changes};
      if (to == IBV_QPS_SQD) return attribute_sets{.optional = IBV_QP_EN_SQD_ASYNC_NOTIFY};
      break;
    case IBV_QPS_SQD:
      if (to == IBV_QPS_RTS) return attribute_sets{.optional = IBV_QP_CUR_STATE | changes};
      if (to == IBV_QPS_SQD) {
        return attribute_sets{
            .optional = changes | IBV_QP_PKEY_INDEX | (datagrams ? 0 : IBV_QP_AV | IBV_QP_PORT) |
                        (receives_reliably(type) ? IBV_QP_MAX_DEST_RD_ATOMIC : 0) |
                        (sends_reliably(type) ? requester_limits : 0)};
      }
      break;
    case IBV_QPS_SQE:
      if (to == IBV_QPS_RTS && !sends_reliably(type)) {
        return attribute_sets{.optional = IBV_QP_CUR_STATE | changes};
      }
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace

int without_missing_half(ibv_qp_type type, int mask) {
  if (type == IBV_QPT_XRC_SEND) return mask & ~responder_limits;
  if (type == IBV_QPT_XRC_RECV) return mask & ~(requester_limits & ~IBV_QP_TIMEOUT);
  return mask;
}

bool transition_is_legal(ibv_qp_state from, ibv_qp_state to, ibv_qp_type type, int mask) {
  if ((mask & IBV_QP_CUR_STATE) != 0 && from != IBV_QPS_RTR && from != IBV_QPS_RTS &&
      from != IBV_QPS_SQD && from != IBV_QPS_SQE) {
    return false;
  }
  const auto found = sets(from, to, type);
  if (!found) return false;
  if ((mask & found->required) != found->required) return false;
  return (mask & ~(found->required | found->optional | IBV_QP_STATE)) == 0;
}

}  // namespace softverbs::engine
