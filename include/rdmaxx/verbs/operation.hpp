#pragma once

// operation: the description of a type of work request, written once.
//
// All code that writes or checks requests is generic over this description, such as the translation
// into C work requests (native_request.hpp). A request type of your own needs only its description
// to be posted like the library's:
//
//   template <>
//   struct rdmaxx::operation<my_wr> {
//     static constexpr std::string_view name = "mine";
//     static constexpr ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
//     static constexpr service_types services = {.rc = true, .uc = true};
//     static constexpr access_flags remote_access = access::remote_write;
//     static const gather_list& elements(const my_wr& request) { return request.from; }
//     static const remote_address& remote(const my_wr& request) { return request.to; }
//   };
//
// Every type that goes to a send queue has the members `id` and `flags`, and a description with
// `name`, `opcode`, `services`, `remote_access` and `elements()`: a gather_list of what is sent, or
// a scatter_list of where the answer goes. Optional members of a description:
//
//   opcode_with_imm   of a request whose optional member `imm` is set
//   invalidated()     a key that the message takes away from the peer
//   remote()          memory of the peer
//   operands()        of an atomic, beside remote()
//   destination()     of a datagram
//   element_bytes     the one size that its elements may have together

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include <infiniband/verbs.h>

#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/verbs/access.hpp>
#include <rdmaxx/verbs/work_request.hpp>

namespace RDMAXX_NAMESPACE {

/// The types of queue pairs that an operation can be posted to.
struct service_types {
  bool rc = false;
  bool uc = false;
  bool ud = false;
  friend constexpr bool operator==(const service_types&, const service_types&) = default;
};

/// The 64-bit operands of an atomic, in wire order: FETCH AND ADD has the first only.
struct atomic_operands {
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
};

/// Where a UD send goes.
struct ud_destination {
  const address_handle& ah;
  qpn queue_pair{};
  qkey queue_key{};
};

template <class Request>
struct operation;

/// Requests for a send queue: types with a description.
template <class Request>
concept send_operation = requires(const Request& request) {
  { request.id } -> std::convertible_to<wr_id>;
  { request.flags } -> std::convertible_to<send_flags>;
  { operation<Request>::name } -> std::convertible_to<std::string_view>;
  { operation<Request>::opcode } -> std::convertible_to<ibv_wr_opcode>;
  { operation<Request>::services } -> std::convertible_to<service_types>;
  { operation<Request>::remote_access } -> std::convertible_to<access_flags>;
  operation<Request>::elements(request).bytes();
};

template <class Request>
concept has_immediate = requires(const Request& request) {
  { operation<Request>::opcode_with_imm } -> std::convertible_to<ibv_wr_opcode>;
  { request.imm } -> std::convertible_to<std::optional<std::uint32_t>>;
};
template <class Request>
concept invalidating_operation = requires(const Request& request) {
  { operation<Request>::invalidated(request) } -> std::convertible_to<rkey>;
};
template <class Request>
concept remote_operation = requires(const Request& request) {
  { operation<Request>::remote(request) } -> std::convertible_to<remote_address>;
};
template <class Request>
concept atomic_operation = remote_operation<Request> && requires(const Request& request) {
  { operation<Request>::operands(request) } -> std::convertible_to<atomic_operands>;
};
template <class Request>
concept datagram_operation = requires(const Request& request) {
  { operation<Request>::destination(request) } -> std::convertible_to<ud_destination>;
};

// ── the library's own ──

template <>
struct operation<send_wr> {
  static constexpr std::string_view name = "send";
  static constexpr ibv_wr_opcode opcode = IBV_WR_SEND;
  static constexpr ibv_wr_opcode opcode_with_imm = IBV_WR_SEND_WITH_IMM;
  static constexpr service_types services = {.rc = true, .uc = true};
  static constexpr access_flags remote_access{};
  static const gather_list& elements(const send_wr& request) noexcept { return request.from; }
};

template <>
struct operation<ud_send_wr> {
  static constexpr std::string_view name = "ud_send";
  static constexpr ibv_wr_opcode opcode = IBV_WR_SEND;
  static constexpr ibv_wr_opcode opcode_with_imm = IBV_WR_SEND_WITH_IMM;
  static constexpr service_types services = {.ud = true};
  static constexpr access_flags remote_access{};
  static const gather_list& elements(const ud_send_wr& request) noexcept { return request.from; }
  static ud_destination destination(const ud_send_wr& request) noexcept {
    return {.ah = request.to,
            .queue_pair = request.remote_queue_pair,
            .queue_key = request.remote_queue_key};
  }
};

template <>
struct operation<write_wr> {
  static constexpr std::string_view name = "write";
  static constexpr ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  static constexpr ibv_wr_opcode opcode_with_imm = IBV_WR_RDMA_WRITE_WITH_IMM;
  static constexpr service_types services = {.rc = true, .uc = true};
  static constexpr access_flags remote_access = access::remote_write;
  static const gather_list& elements(const write_wr& request) noexcept { return request.from; }
  static const remote_address& remote(const write_wr& request) noexcept { return request.to; }
};

template <>
struct operation<read_wr> {
  static constexpr std::string_view name = "read";
  static constexpr ibv_wr_opcode opcode = IBV_WR_RDMA_READ;
  static constexpr service_types services = {.rc = true};
  static constexpr access_flags remote_access = access::remote_read;
  static const scatter_list& elements(const read_wr& request) noexcept { return request.into; }
  static const remote_address& remote(const read_wr& request) noexcept { return request.from; }
};

template <>
struct operation<cas_wr> {
  static constexpr std::string_view name = "compare_and_swap";
  static constexpr ibv_wr_opcode opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  static constexpr service_types services = {.rc = true};
  static constexpr access_flags remote_access = access::remote_atomic;
  static constexpr std::uint64_t element_bytes = sizeof(std::uint64_t);
  static const scatter_list& elements(const cas_wr& request) noexcept { return request.into; }
  static const remote_address& remote(const cas_wr& request) noexcept { return request.at; }
  static atomic_operands operands(const cas_wr& request) noexcept {
    return {.compare_or_add = request.expected, .swap = request.desired};
  }
};

template <>
struct operation<faa_wr> {
  static constexpr std::string_view name = "fetch_and_add";
  static constexpr ibv_wr_opcode opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  static constexpr service_types services = {.rc = true};
  static constexpr access_flags remote_access = access::remote_atomic;
  static constexpr std::uint64_t element_bytes = sizeof(std::uint64_t);
  static const scatter_list& elements(const faa_wr& request) noexcept { return request.into; }
  static const remote_address& remote(const faa_wr& request) noexcept { return request.at; }
  static atomic_operands operands(const faa_wr& request) noexcept {
    return {.compare_or_add = request.add};
  }
};

}  // namespace RDMAXX_NAMESPACE
