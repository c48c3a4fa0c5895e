#include "names.hpp"

#include <array>
#include <cstring>
#include <span>
#include <utility>

namespace cm_oracle {

namespace {

template <class Key, std::size_t N>
std::string look_up(const std::array<std::pair<Key, const char*>, N>& names, Key key) {
  for (const auto& [known, name] : names) {
    if (known == key) return name;
  }
  return std::to_string(static_cast<int>(key));
}

constexpr auto events = std::to_array<std::pair<rdma_cm_event_type, const char*>>({
    {RDMA_CM_EVENT_ADDR_RESOLVED, "RDMA_CM_EVENT_ADDR_RESOLVED"},
    {RDMA_CM_EVENT_ADDR_ERROR, "RDMA_CM_EVENT_ADDR_ERROR"},
    {RDMA_CM_EVENT_ROUTE_RESOLVED, "RDMA_CM_EVENT_ROUTE_RESOLVED"},
    {RDMA_CM_EVENT_ROUTE_ERROR, "RDMA_CM_EVENT_ROUTE_ERROR"},
    {RDMA_CM_EVENT_CONNECT_REQUEST, "RDMA_CM_EVENT_CONNECT_REQUEST"},
    {RDMA_CM_EVENT_CONNECT_RESPONSE, "RDMA_CM_EVENT_CONNECT_RESPONSE"},
    {RDMA_CM_EVENT_CONNECT_ERROR, "RDMA_CM_EVENT_CONNECT_ERROR"},
    {RDMA_CM_EVENT_UNREACHABLE, "RDMA_CM_EVENT_UNREACHABLE"},
    {RDMA_CM_EVENT_REJECTED, "RDMA_CM_EVENT_REJECTED"},
    {RDMA_CM_EVENT_ESTABLISHED, "RDMA_CM_EVENT_ESTABLISHED"},
    {RDMA_CM_EVENT_DISCONNECTED, "RDMA_CM_EVENT_DISCONNECTED"},
    {RDMA_CM_EVENT_DEVICE_REMOVAL, "RDMA_CM_EVENT_DEVICE_REMOVAL"},
    {RDMA_CM_EVENT_MULTICAST_JOIN, "RDMA_CM_EVENT_MULTICAST_JOIN"},
    {RDMA_CM_EVENT_MULTICAST_ERROR, "RDMA_CM_EVENT_MULTICAST_ERROR"},
    {RDMA_CM_EVENT_ADDR_CHANGE, "RDMA_CM_EVENT_ADDR_CHANGE"},
    {RDMA_CM_EVENT_TIMEWAIT_EXIT, "RDMA_CM_EVENT_TIMEWAIT_EXIT"},
});

constexpr auto states = std::to_array<std::pair<ibv_qp_state, const char*>>({
    {IBV_QPS_RESET, "RESET"},
    {IBV_QPS_INIT, "INIT"},
    {IBV_QPS_RTR, "RTR"},
    {IBV_QPS_RTS, "RTS"},
    {IBV_QPS_SQD, "SQD"},
    {IBV_QPS_SQE, "SQE"},
    {IBV_QPS_ERR, "ERR"},
});

constexpr auto port_spaces = std::to_array<std::pair<rdma_port_space, const char*>>({
    {RDMA_PS_IPOIB, "RDMA_PS_IPOIB"},
    {RDMA_PS_TCP, "RDMA_PS_TCP"},
    {RDMA_PS_UDP, "RDMA_PS_UDP"},
    {RDMA_PS_IB, "RDMA_PS_IB"},
});

constexpr auto qp_attributes = std::to_array<std::pair<int, const char*>>({
    {IBV_QP_STATE, "STATE"},
    {IBV_QP_CUR_STATE, "CUR_STATE"},
    {IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"},
    {IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS"},
    {IBV_QP_PKEY_INDEX, "PKEY_INDEX"},
    {IBV_QP_PORT, "PORT"},
    {IBV_QP_QKEY, "QKEY"},
    {IBV_QP_AV, "AV"},
    {IBV_QP_PATH_MTU, "PATH_MTU"},
    {IBV_QP_TIMEOUT, "TIMEOUT"},
    {IBV_QP_RETRY_CNT, "RETRY_CNT"},
    {IBV_QP_RNR_RETRY, "RNR_RETRY"},
    {IBV_QP_RQ_PSN, "RQ_PSN"},
    {IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"},
    {IBV_QP_ALT_PATH, "ALT_PATH"},
    {IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER"},
    {IBV_QP_SQ_PSN, "SQ_PSN"},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"},
    {IBV_QP_PATH_MIG_STATE, "PATH_MIG_STATE"},
    {IBV_QP_CAP, "CAP"},
    {IBV_QP_DEST_QPN, "DEST_QPN"},
});

constexpr auto families = std::to_array<std::pair<int, const char*>>({
    {AF_UNSPEC, "AF_UNSPEC"},
    {AF_INET, "AF_INET"},
    {AF_INET6, "AF_INET6"},
    {27, "AF_IB"},
});

constexpr auto qp_types = std::to_array<std::pair<int, const char*>>({
    {IBV_QPT_RC, "IBV_QPT_RC"},
    {IBV_QPT_UC, "IBV_QPT_UC"},
    {IBV_QPT_UD, "IBV_QPT_UD"},
});

}  // namespace

std::string name_of_errno(int number) {
  constexpr int not_supported = 524;  // the kernel's own ENOTSUPP, which programs were not to see
  if (number == not_supported) return "ENOTSUPP";
  const char* const name = strerrorname_np(number);
  return name == nullptr ? std::to_string(number) : name;
}

std::string name_of(rdma_cm_event_type type) { return look_up(events, type); }
std::string name_of(ibv_qp_state state) { return look_up(states, state); }
std::string name_of(rdma_port_space space) { return look_up(port_spaces, space); }
std::string name_of_family(int family) { return look_up(families, family); }
std::string name_of_qp_type(int type) { return look_up(qp_types, type); }

json names_of_qp_attributes(int mask) {
  json names = json::array();
  for (const auto& [bit, name] : qp_attributes) {
    if ((mask & bit) != 0) names.push_back(name);
    mask &= ~bit;
  }
  if (mask != 0) names.push_back(mask);
  return names;
}

std::string hex(const void* data, std::size_t bytes) {
  constexpr auto digits = "0123456789abcdef";
  std::string text;
  for (const auto byte : std::span(static_cast<const unsigned char*>(data), bytes)) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

}  // namespace cm_oracle
