#pragma once

// work requests: what a queue pair is asked to do, one type per operation.
//
//   qp.post(send_wr{.id = wr_id{1}, .from = mr.gather(buffer)}).value();
//   qp.post(read_wr{.id = wr_id{2}, .from = remote, .into = mr.scatter(buffer)}).value();
//
// Sends and writes take gathers, reads, atomics and receives take scatters, so a const buffer
// cannot be the target of a read. One element is held by value; several are an array, vector or
// span of yours, with a name, that lives until the request has been posted (element_list.hpp).
//
// Requests are descriptions, and may be named, stored and copied. They are translated into C work
// requests on the stack of post(), which the compiler folds away; arrays of elements are not
// copied.

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <rdmaxx/core/flags.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/verbs/address_handle.hpp>
#include <rdmaxx/verbs/element_list.hpp>
#include <rdmaxx/verbs/remote_address.hpp>

namespace rdmaxx::inline v0 {

enum class send_flag : std::uint32_t {
  fence = IBV_SEND_FENCE,          ///< starts after all earlier reads and atomics have finished
  signaled = IBV_SEND_SIGNALED,    ///< success is reported, too; failure always is
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
  qkey remote_key{};
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

/// A place for one incoming message. UD messages are preceded by 40 bytes of GRH.
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

/// The requests that go to a send queue.
template <class T>
concept send_operation =
    std::same_as<T, send_wr> || std::same_as<T, ud_send_wr> || std::same_as<T, write_wr> ||
    std::same_as<T, read_wr> || std::same_as<T, cas_wr> || std::same_as<T, faa_wr>;

namespace detail {

/// send_flags as the C API wants them; inline_if_fits is resolved against the queue pair's limit.
[[nodiscard]] inline unsigned native_flags(send_flags wanted, const gather_list& list,
                                           std::uint32_t max_inline) noexcept {
  unsigned bits = wanted.bits();
  if (wanted.has(send_flag::inline_if_fits)) {
    bits -= static_cast<unsigned>(send_flag::inline_if_fits);
    if (list.bytes() <= max_inline) bits |= IBV_SEND_INLINE;
  }
  return bits;
}

// `place` receives the element of a list that holds one by value.

template <class Native, class Element>
inline void fill_common(Native& out, ibv_sge& place, wr_id id,
                        const element_list<Element>& list) noexcept {
  out.wr_id = id.value();
  out.sg_list = list.native(place);
  out.num_sge = static_cast<int>(list.size());
}

template <class Request>
inline void fill_outgoing(ibv_send_wr& out, ibv_sge& place, const Request& request,
                          ibv_wr_opcode plain, ibv_wr_opcode with_imm,
                          std::uint32_t max_inline) noexcept {
  fill_common(out, place, request.id, request.from);
  out.opcode = plain;
  if (request.imm) {
    out.opcode = with_imm;
    out.imm_data = htonl(*request.imm);
  }
  out.send_flags = native_flags(request.flags, request.from, max_inline);
}

inline void fill(ibv_send_wr& out, ibv_sge& place, const send_wr& request,
                 std::uint32_t max_inline) noexcept {
  fill_outgoing(out, place, request, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, max_inline);
}

inline void fill(ibv_send_wr& out, ibv_sge& place, const ud_send_wr& request,
                 std::uint32_t max_inline) noexcept {
  expect(static_cast<bool>(request.to), "was given a ud_send_wr to an empty address_handle",
         "make one with protection_domain::create_ah()");
  fill_outgoing(out, place, request, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, max_inline);
  out.wr.ud = {.ah = request.to.native(),
               .remote_qpn = request.remote_queue_pair.value(),
               .remote_qkey = request.remote_key.value()};
}

inline void fill(ibv_send_wr& out, ibv_sge& place, const write_wr& request,
                 std::uint32_t max_inline) noexcept {
  fill_outgoing(out, place, request, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, max_inline);
  out.wr.rdma = {.remote_addr = request.to.address, .rkey = request.to.key.value()};
}

inline void fill(ibv_send_wr& out, ibv_sge& place, const read_wr& request, std::uint32_t) noexcept {
  fill_common(out, place, request.id, request.into);
  out.opcode = IBV_WR_RDMA_READ;
  out.send_flags = (request.flags - send_flag::inline_if_fits).bits();  // nothing is sent along
  out.wr.rdma = {.remote_addr = request.from.address, .rkey = request.from.key.value()};
}

inline void fill(ibv_send_wr& out, ibv_sge& place, const cas_wr& request, std::uint32_t) noexcept {
  fill_common(out, place, request.id, request.into);
  out.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  out.send_flags = (request.flags - send_flag::inline_if_fits).bits();  // nothing is sent along
  out.wr.atomic = {.remote_addr = request.at.address,
                   .compare_add = request.expected,
                   .swap = request.desired,
                   .rkey = request.at.key.value()};
}

inline void fill(ibv_send_wr& out, ibv_sge& place, const faa_wr& request, std::uint32_t) noexcept {
  fill_common(out, place, request.id, request.into);
  out.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  out.send_flags = (request.flags - send_flag::inline_if_fits).bits();  // nothing is sent along
  out.wr.atomic = {.remote_addr = request.at.address,
                   .compare_add = request.add,
                   .swap = 0,
                   .rkey = request.at.key.value()};
}

inline void fill(ibv_recv_wr& out, ibv_sge& place, const recv_wr& request) noexcept {
  fill_common(out, place, request.id, request.into);
}

}  // namespace detail

}  // namespace rdmaxx::inline v0
