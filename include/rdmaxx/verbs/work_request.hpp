#pragma once

// work requests: what a queue pair is asked to do, one type per operation.
//
//   qp.post(send_wr{.id = wr_id{1}, .from = mr.gather(buffer)}).value();
//   qp.post(read_wr{.id = wr_id{2}, .from = remote, .into = mr.scatter(buffer)}).value();
//
// Sends and writes take gathers, reads, atomics and receives take scatters, so a const buffer
// cannot be the target of a read. One element is held by value; several are in a named array,
// vector or span that lives until the request has been posted (element_list.hpp).
//
// Requests are descriptions, and may be named, stored and copied. They are translated into C work
// requests on the stack of post(), which the compiler folds away; arrays of elements are not
// copied. operation.hpp describes each type.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <infiniband/verbs.h>

#include <rdmaxx/core/flags.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/verbs/address_handle.hpp>
#include <rdmaxx/verbs/element_list.hpp>
#include <rdmaxx/verbs/remote_address.hpp>

namespace RDMAXX_NAMESPACE {

enum class send_flag : std::uint32_t {
  fence = IBV_SEND_FENCE,          ///< starts after all earlier reads and atomics have finished
  signaled = IBV_SEND_SIGNALED,    ///< also reports success; failure is always reported
  solicited = IBV_SEND_SOLICITED,  ///< wakes a peer that armed its queue for solicited completions
  inline_data =
      IBV_SEND_INLINE,  ///< the CPU copies the bytes while posting; they need no registration
  ip_checksum = IBV_SEND_IP_CSUM,
  inline_if_fits = 1U << 31,  ///< inline_data if the bytes are within the queue pair's max_inline
};
template <>
inline constexpr bool is_flag_enum<send_flag> = true;
using send_flags = flags<send_flag>;
[[nodiscard]] std::string_view describe(send_flag flag) noexcept;

/// SEND, with immediate data if `imm` is set (host byte order). RC and UC.
struct send_wr {
  wr_id id{};
  gather_list from{};
  std::optional<std::uint32_t> imm{};
  send_flags flags = send_flag::signaled;
};

/// SEND to one datagram receiver. UD.
struct ud_send_wr {
  wr_id id{};
  gather_list from{};
  const address_handle& to;
  qpn remote_queue_pair{};
  qkey remote_queue_key{};
  std::optional<std::uint32_t> imm{};
  send_flags flags = send_flag::signaled;
};

/// RDMA WRITE; with `imm` set it also consumes a receive of the peer. RC and UC.
struct write_wr {
  wr_id id{};
  gather_list from{};
  remote_address to{};
  std::optional<std::uint32_t> imm{};
  send_flags flags = send_flag::signaled;
};

/// RDMA READ. RC.
struct read_wr {
  wr_id id{};
  remote_address from{};
  scatter_list into{};
  send_flags flags = send_flag::signaled;
};

/// COMPARE AND SWAP of the 8 aligned bytes at `at`; their old value arrives in `into`. RC.
struct cas_wr {
  wr_id id{};
  remote_address at{};
  std::uint64_t expected = 0;
  std::uint64_t desired = 0;
  scatter_list into{};
  send_flags flags = send_flag::signaled;
};

/// FETCH AND ADD on the 8 aligned bytes at `at`; their old value arrives in `into`. RC.
struct faa_wr {
  wr_id id{};
  remote_address at{};
  std::uint64_t add = 0;
  scatter_list into{};
  send_flags flags = send_flag::signaled;
};

/// A buffer for one incoming message. UD messages are preceded by 40 bytes of GRH.
struct recv_wr {
  wr_id id{};
  scatter_list into{};
};

[[nodiscard]] std::string describe(const send_wr& request);
[[nodiscard]] std::string describe(const ud_send_wr& request);
[[nodiscard]] std::string describe(const write_wr& request);
[[nodiscard]] std::string describe(const read_wr& request);
[[nodiscard]] std::string describe(const cas_wr& request);
[[nodiscard]] std::string describe(const faa_wr& request);
[[nodiscard]] std::string describe(const recv_wr& request);

}  // namespace RDMAXX_NAMESPACE
