#pragma once

// requests: work requests with their elements in one object, to be posted once or often.

#include <cstdint>
#include <utility>
#include <vector>

#include <endian.h>
#include <infiniband/verbs.h>

namespace softverbs::device_tests {

struct send_request {
  ibv_send_wr wr{};
  std::vector<ibv_sge> elements;

  /// What ibv_post_send returns.
  [[nodiscard]] int post(ibv_qp* qp) {
    wr.sg_list = elements.data();
    wr.num_sge = static_cast<int>(elements.size());
    ibv_send_wr* bad = nullptr;
    const int failure = ibv_post_send(qp, &wr, &bad);
    return failure == 0 || bad == &wr ? failure : -1;
  }

  send_request& flags(unsigned more) {
    wr.send_flags |= more;
    return *this;
  }
  send_request& imm(std::uint32_t value) {
    wr.opcode = wr.opcode == IBV_WR_SEND ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.imm_data = htobe32(value);
    return *this;
  }
  send_request& invalidating(std::uint32_t rkey) {
    wr.opcode = IBV_WR_SEND_WITH_INV;
    wr.invalidate_rkey = rkey;
    return *this;
  }
  send_request& to(ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
    wr.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = qkey};
    return *this;
  }
  send_request& to_srq(std::uint32_t number) {
    wr.qp_type.xrc.remote_srqn = number;
    return *this;
  }
};

/// All requests are signaled; clear the flag where that is not wanted.
[[nodiscard]] inline send_request request(ibv_wr_opcode opcode, std::uint64_t id,
                                          std::vector<ibv_sge> elements) {
  send_request made{.wr = {}, .elements = std::move(elements)};
  made.wr.wr_id = id;
  made.wr.opcode = opcode;
  made.wr.send_flags = IBV_SEND_SIGNALED;
  return made;
}

[[nodiscard]] inline send_request send(std::uint64_t id, std::vector<ibv_sge> from) {
  return request(IBV_WR_SEND, id, std::move(from));
}

/// A write, or a read if `opcode` says so.
[[nodiscard]] inline send_request write(std::uint64_t id, std::vector<ibv_sge> from,
                                        std::uint64_t address, std::uint32_t rkey,
                                        ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) {
  auto made = request(opcode, id, std::move(from));
  made.wr.wr.rdma = {.remote_addr = address, .rkey = rkey};
  return made;
}

[[nodiscard]] inline send_request read(std::uint64_t id, std::vector<ibv_sge> into,
                                       std::uint64_t address, std::uint32_t rkey) {
  return write(id, std::move(into), address, rkey, IBV_WR_RDMA_READ);
}

[[nodiscard]] inline send_request fetch_add(std::uint64_t id, ibv_sge into, std::uint64_t address,
                                            std::uint32_t rkey, std::uint64_t add) {
  auto made = request(IBV_WR_ATOMIC_FETCH_AND_ADD, id, {into});
  made.wr.wr.atomic = {.remote_addr = address, .compare_add = add, .swap = 0, .rkey = rkey};
  return made;
}

[[nodiscard]] inline send_request compare_swap(std::uint64_t id, ibv_sge into,
                                               std::uint64_t address, std::uint32_t rkey,
                                               std::uint64_t compare, std::uint64_t swap) {
  auto made = request(IBV_WR_ATOMIC_CMP_AND_SWP, id, {into});
  made.wr.wr.atomic = {.remote_addr = address, .compare_add = compare, .swap = swap, .rkey = rkey};
  return made;
}

[[nodiscard]] inline send_request local_invalidate(std::uint64_t id, std::uint32_t rkey) {
  auto made = request(IBV_WR_LOCAL_INV, id, {});
  made.wr.invalidate_rkey = rkey;
  return made;
}

[[nodiscard]] inline send_request bind_window(std::uint64_t id, ibv_mw* mw, std::uint32_t rkey,
                                              const ibv_mw_bind_info& what) {
  auto made = request(IBV_WR_BIND_MW, id, {});
  made.wr.bind_mw = {.mw = mw, .rkey = rkey, .bind_info = what};
  return made;
}

/// What ibv_post_recv or ibv_post_srq_recv returns.
[[nodiscard]] inline int post_receive(ibv_qp* qp, std::uint64_t id, std::vector<ibv_sge> into) {
  ibv_recv_wr wr{.wr_id = id,
                 .next = nullptr,
                 .sg_list = into.data(),
                 .num_sge = static_cast<int>(into.size())};
  ibv_recv_wr* bad = nullptr;
  const int failure = ibv_post_recv(qp, &wr, &bad);
  return failure == 0 || bad == &wr ? failure : -1;
}
[[nodiscard]] inline int post_receive(ibv_srq* srq, std::uint64_t id, std::vector<ibv_sge> into) {
  ibv_recv_wr wr{.wr_id = id,
                 .next = nullptr,
                 .sg_list = into.data(),
                 .num_sge = static_cast<int>(into.size())};
  ibv_recv_wr* bad = nullptr;
  const int failure = ibv_post_srq_recv(srq, &wr, &bad);
  return failure == 0 || bad == &wr ? failure : -1;
}

}  // namespace softverbs::device_tests
