#pragma once

// native_request: translates a request into the C work request of ibv_post_send().
//
// Everything is inlined into post(), where the compiler sees what the request holds: what remains
// are the stores that a C program would write. Only what the operation reads is filled in.

#include <cstdint>

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <rdmaxx/core/precondition.hpp>
#include <rdmaxx/verbs/operation.hpp>

namespace RDMAXX_NAMESPACE::detail {

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
/// The target of a response is never inline.
[[nodiscard]] inline unsigned native_flags(send_flags wanted, const scatter_list&,
                                           std::uint32_t) noexcept {
  return (wanted - send_flag::inline_if_fits).bits();
}

/// `place` receives the element of a list that holds one by value.
template <class Native, class Element>
inline void fill_common(Native& out, ibv_sge& place, wr_id id,
                        const element_list<Element>& list) noexcept {
  out.wr_id = id.value();
  out.sg_list = list.native(place);
  out.num_sge = static_cast<int>(list.size());
}

template <send_operation Request>
inline void fill(ibv_send_wr& out, ibv_sge& place, const Request& request,
                 std::uint32_t max_inline) noexcept {
  using described = operation<Request>;
  const auto& elements = described::elements(request);
  fill_common(out, place, request.id, elements);
  out.opcode = described::opcode;
  out.send_flags = native_flags(request.flags, elements, max_inline);
  if constexpr (has_immediate<Request>) {
    if (request.imm) {
      out.opcode = described::opcode_with_imm;
      out.imm_data = htonl(*request.imm);
    }
  }
  if constexpr (invalidating_operation<Request>) {
    out.invalidate_rkey = described::invalidated(request).value();
  }
  if constexpr (atomic_operation<Request>) {
    const atomic_operands operands = described::operands(request);
    const auto& remote = described::remote(request);
    out.wr.atomic = {.remote_addr = remote.address,
                     .compare_add = operands.compare_or_add,
                     .swap = operands.swap,
                     .rkey = remote.key.value()};
  } else if constexpr (remote_operation<Request>) {
    const auto& remote = described::remote(request);
    out.wr.rdma = {.remote_addr = remote.address, .rkey = remote.key.value()};
  } else if constexpr (datagram_operation<Request>) {
    const ud_destination to = described::destination(request);
    expect(static_cast<bool>(to.ah), "was given a ud_send_wr to an empty address_handle",
           "create one with protection_domain::create_ah()");
    out.wr.ud = {.ah = to.ah.native(),
                 .remote_qpn = to.queue_pair.value(),
                 .remote_qkey = to.queue_key.value()};
  }
}

inline void fill(ibv_recv_wr& out, ibv_sge& place, const recv_wr& request) noexcept {
  fill_common(out, place, request.id, request.into);
}

}  // namespace RDMAXX_NAMESPACE::detail
