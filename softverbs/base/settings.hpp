// What a user can configure: read once from the environment, at the first use of the library.
// Every variable begins with SOFTVERBS_; docs/softverbs.md lists them. A value that cannot be
// understood is reported on standard error, and the default holds. Numbers may end in K or M
// (1024 and 1024 * 1024). What softverbs_set() gave before the first use wins over the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace softverbs {

enum class log_level : std::uint8_t { none, error, warning, info, debug };
enum class icrc_use : std::uint8_t {
  where_it_may_leave,  ///< not between processes of one host
  always,
};

/// Whose connection manager a process uses.
enum class cm_use : std::uint8_t {
  automatic,  ///< the real one if there is a real device
  soft,
  real,
};

struct settings {
  log_level log = log_level::warning;  ///< LOG=none|error|warning|info|debug
  std::vector<std::string> netdevs;    ///< NETDEVS=lo,eth0: the only ones; empty: all usable
  bool real_devices = true;            ///< REAL=0 hides the devices of the real libibverbs
  cm_use cm = cm_use::automatic;       ///< CM=auto|soft|real
  unsigned mtu = 4096;                 ///< MTU=256…4096: the largest active MTU
  icrc_use icrc = icrc_use::where_it_may_leave;  ///< ICRC=auto|always
  bool shared_memory = true;                     ///< SHM=0: processes of one host use sockets, too
  bool segmentation_offload = true;              ///< GSO=0: one system call for each packet
  unsigned socket_buffer_bytes = 16U
                                 << 20;  ///< SOCKET_BUFFER: asked of the kernel, the largest window
  unsigned max_qp = 65536;               ///< MAX_QP: for each device
  unsigned max_qp_wr = 16384;            ///< MAX_QP_WR
  unsigned max_sge = 32;                 ///< MAX_SGE
  unsigned max_inline = 512;             ///< MAX_INLINE: bytes
  unsigned max_cq = 65536;               ///< MAX_CQ
  unsigned max_cqe = 4U << 20;           ///< MAX_CQE: entries of one completion queue
  unsigned max_mr = 1U << 20;            ///< MAX_MR
  std::string capture;                   ///< CAPTURE=file: writes a pcap of all traffic
  /// TRUSTED_USERS=1000,1001: numbers of users whose processes are treated as the own user's are.
  std::vector<unsigned> trusted_users;
  std::string faults;  ///< FAULTS=loss=0.01,seed=7,…: see engine/faults.hpp

  /// The process's settings.
  [[nodiscard]] static const settings& get();

  /// Understands `value` as that of the variable SOFTVERBS_<name>.
  /// False, and nothing has changed, if there is no such variable or it cannot have that value.
  [[nodiscard]] bool assign(std::string_view name, std::string_view value);

  /// Changes one of the process's settings before anything has used them.
  enum class change : std::uint8_t { done, too_late, not_understood };
  [[nodiscard]] static change set(std::string_view name, std::string_view value);

  /// What an environment says; `lookup` has the meaning of getenv(3), `report` hears of each value
  /// that could not be understood.
  [[nodiscard]] static settings from(const std::function<const char*(const char*)>& lookup,
                                     const std::function<void(std::string_view problem)>& report);
};

}  // namespace softverbs
