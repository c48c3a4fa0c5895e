#include <engine/verbs_requests.hpp>

#include <cerrno>
#include <cstring>
#include <optional>

#include <engine/address_handle.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {
namespace {

using transport::opcode;
using transport::send_work;

std::optional<opcode> opcode_of(ibv_wr_opcode code) {
  switch (code) {
    case IBV_WR_SEND:
      return opcode::send;
    case IBV_WR_SEND_WITH_IMM:
      return opcode::send_immediate;
    case IBV_WR_SEND_WITH_INV:
      return opcode::send_invalidate;
    case IBV_WR_RDMA_WRITE:
      return opcode::write;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return opcode::write_immediate;
    case IBV_WR_RDMA_READ:
      return opcode::read;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return opcode::compare_swap;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return opcode::fetch_add;
    case IBV_WR_BIND_MW:
      return opcode::bind_window;
    case IBV_WR_LOCAL_INV:
      return opcode::local_invalidate;
    default:
      return std::nullopt;
  }
}

/// Copies a piece of inline data behind what is there; false if it does not fit.
bool add_inline(transport::send_queue& queue, std::uint64_t index, const void* from,
                std::size_t bytes) {
  if (bytes == 0) return true;  // its address may be anything
  auto& work = queue[index];
  if (bytes > queue.most_inline() - work.bytes) return false;
  std::memcpy(queue.inline_data(index) + work.bytes, from, bytes);
  work.bytes += bytes;
  return true;
}

void begin_inline(send_work& work) {
  work.inline_data = true;
  work.elements = 0;
  work.bytes = 0;
}

}  // namespace

transport::service service_of(ibv_qp_type type) {
  using transport::service;
  switch (type) {
    case IBV_QPT_UC:
      return service::uc;
    case IBV_QPT_UD:
      return service::ud;
    case IBV_QPT_XRC_SEND:
      return service::xrc_send;
    case IBV_QPT_XRC_RECV:
      return service::xrc_receive;
    default:
      return service::rc;
  }
}

int begin(send_work& work, std::uint64_t wr_id, ibv_wr_opcode code, unsigned flags) {
  const auto op = opcode_of(code);
  if (!op) return EINVAL;
  work = {.id = wr_id,
          .op = *op,
          .signaled = (flags & IBV_SEND_SIGNALED) != 0,
          .fenced = (flags & IBV_SEND_FENCE) != 0,
          .solicited = (flags & IBV_SEND_SOLICITED) != 0};
  return 0;
}

void set_remote(send_work& work, std::uint64_t address, std::uint32_t rkey) {
  work.remote_address = address;
  work.rkey = rkey;
}

void set_destination(send_work& work, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
  if (ah != nullptr) work.to = static_cast<address_handle*>(ah)->ends;
  work.remote_qpn = qpn & wire::qpn_mask;
  work.remote_qkey = qkey;
}

void set_binding(send_work& work, memory_window& window, std::uint32_t rkey,
                 const ibv_mw_bind_info& wanted) {
  work.window = &window;
  work.region = static_cast<memory_region*>(wanted.mr);
  work.region_key = wanted.mr != nullptr ? wanted.mr->lkey : 0;
  work.rkey = rkey;
  work.bind_address = wanted.addr;
  work.bind_bytes = wanted.length;
  work.bind_access = wanted.mw_access_flags;
}

int set_binding(send_work& work, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& wanted) {
  if (mw == nullptr || mw->type != IBV_MW_TYPE_2) return EINVAL;
  set_binding(work, *static_cast<memory_window*>(mw), rkey, wanted);
  return 0;
}

int set_elements(transport::send_queue& queue, std::uint64_t index,
                 std::span<const ibv_sge> elements) {
  if (elements.size() > queue.most_elements()) return EINVAL;
  auto& work = queue[index];
  work.inline_data = false;
  work.elements = static_cast<std::uint32_t>(elements.size());
  work.bytes = 0;
  auto* into = queue.elements(index);
  for (const auto& each : elements) {
    *into++ = {.address = each.addr, .length = each.length, .key = each.lkey};
    work.bytes += each.length;
  }
  return 0;
}

int set_inline_data(transport::send_queue& queue, std::uint64_t index,
                    std::span<const ibv_data_buf> pieces) {
  begin_inline(queue[index]);
  for (const auto& each : pieces) {
    if (!add_inline(queue, index, each.addr, each.length)) return ENOMEM;
  }
  return 0;
}

int finish(transport::service kind, send_work& work) {
  if (!transport::is_valid(kind, work)) return EINVAL;
  if (work.is_atomic()) work.bytes = sizeof(std::uint64_t);
  return 0;
}

int fill(transport::service kind, transport::send_queue& queue, std::uint64_t index,
         const ibv_send_wr& request) {
  auto& work = queue[index];
  if (const int failure = begin(work, request.wr_id, request.opcode, request.send_flags))
    return failure;
  switch (work.op) {
    case opcode::send:
      break;
    case opcode::send_immediate:
      work.immediate = request.imm_data;
      break;
    case opcode::send_invalidate:
    case opcode::local_invalidate:
      work.immediate = request.invalidate_rkey;
      break;
    case opcode::write:
    case opcode::write_immediate:
    case opcode::read:
      work.immediate = request.imm_data;
      set_remote(work, request.wr.rdma.remote_addr, request.wr.rdma.rkey);
      break;
    case opcode::compare_swap:
    case opcode::fetch_add:
      set_remote(work, request.wr.atomic.remote_addr, request.wr.atomic.rkey);
      work.compare_or_add = request.wr.atomic.compare_add;
      work.swap = request.wr.atomic.swap;
      break;
    case opcode::bind_window:
      if (const int failure = set_binding(work, request.bind_mw.mw, request.bind_mw.rkey,
                                          request.bind_mw.bind_info))
        return failure;
      break;
  }
  if (work.is_local()) return finish(kind, work);
  if (kind == transport::service::ud)
    set_destination(work, request.wr.ud.ah, request.wr.ud.remote_qpn, request.wr.ud.remote_qkey);
  if (kind == transport::service::xrc_send) work.xrc_srqn = request.qp_type.xrc.remote_srqn;
  if (request.num_sge < 0) return EINVAL;
  const std::span elements(request.sg_list, static_cast<std::size_t>(request.num_sge));
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    begin_inline(work);
    if (work.is_read() || work.is_atomic()) return EINVAL;  // before anything is looked at
    for (const auto& each : elements) {
      if (!add_inline(queue, index, reinterpret_cast<const void*>(each.addr), each.length))
        return ENOMEM;
    }
  } else if (const int failure = set_elements(queue, index, elements)) {
    return failure;
  }
  return finish(kind, work);
}

int push(transport::receive_queue& queue, const ibv_recv_wr& request) {
  if (queue.is_full()) return ENOMEM;
  if (request.num_sge < 0 || static_cast<unsigned>(request.num_sge) > queue.most_elements())
    return EINVAL;
  const auto count = static_cast<unsigned>(request.num_sge);
  const auto into = queue.push(request.wr_id, count);
  for (unsigned i = 0; i < count; ++i) {
    const auto& from = request.sg_list[i];
    into[i] = {.address = from.addr, .length = from.length, .key = from.lkey};
  }
  return 0;
}

ibv_wc_opcode completion_opcode(opcode op) {
  switch (op) {
    case opcode::write:
    case opcode::write_immediate:
      return IBV_WC_RDMA_WRITE;
    case opcode::read:
      return IBV_WC_RDMA_READ;
    case opcode::compare_swap:
      return IBV_WC_COMP_SWAP;
    case opcode::fetch_add:
      return IBV_WC_FETCH_ADD;
    case opcode::bind_window:
      return IBV_WC_BIND_MW;
    case opcode::local_invalidate:
      return IBV_WC_LOCAL_INV;
    case opcode::send:
    case opcode::send_immediate:
    case opcode::send_invalidate:
      break;
  }
  return IBV_WC_SEND;
}

}  // namespace softverbs::engine
