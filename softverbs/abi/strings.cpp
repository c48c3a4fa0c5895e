// Names, in the words of the real library: programs print them and scripts read them.

#include <array>
#include <cstddef>

#include <abi/libibverbs.hpp>

namespace {

template <std::size_t Size>
const char* pick(const std::array<const char*, Size>& names, int value) {
  const auto index = static_cast<std::size_t>(value);  // negative ones become large
  return index < Size ? names[index] : "unknown";
}

}  // namespace

const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr std::array names{"unknown",           "InfiniBand channel adapter",
                                    "InfiniBand switch", "InfiniBand router",
                                    "iWARP NIC",         "usNIC",
                                    "usNIC UDP",         "unspecified"};
  return pick(names, type);
}

const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr std::array names{"no state change (NOP)", "down", "init", "armed", "active",
                                    "active defer"};
  return pick(names, static_cast<int>(state));
}

const char* ibv_event_type_str(ibv_event_type event) {
  static constexpr std::array names{
      "CQ error",
      "local work queue catastrophic error",
      "invalid request local work queue error",
      "local access violation work queue error",
      "communication established",
      "send queue drained",
      "path migrated",
      "path migration request error",
      "local catastrophic error",
      "port active",
      "port error",
      "LID change",
      "P_Key change",
      "SM change",
      "SRQ catastrophic error",
      "SRQ limit reached",
      "last WQE reached",
      "client reregistration",
      "GID table change",
      "WQ fatal",
  };
  return pick(names, static_cast<int>(event));
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr std::array names{
      "success",
      "local length error",
      "local QP operation error",
      "local EE context operation error",
      "local protection error",
      "Work Request Flushed Error",
      "memory management operation error",
      "bad response error",
      "local access error",
      "remote invalid request error",
      "remote access error",
      "remote operation error",
      "transport retry counter exceeded",
      "RNR retry counter exceeded",
      "local RDD violation error",
      "remote invalid RD request",
      "aborted error",
      "invalid EE context number",
      "invalid EE context state",
      "fatal error",
      "response timeout error",
      "general error",
      "TM error",
      "TM software rendezvous",
  };
  return pick(names, static_cast<int>(status));
}
