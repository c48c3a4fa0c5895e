// Causes RoCEv2 packets of every kind between two queue pairs of this process, for a recording
// (SOFTVERBS_CAPTURE) that others look at. A program like any other: it knows only libibverbs.
//
//   capture_traffic <device> <gid index> <scene>
//
//   recorded   what tests/data/roce/rc_uc_operations.pcap holds, in the same order
//   kinds      what is missing there
//   transfer   long messages one after the other, for a network with faults

#include <initializer_list>
#include <string_view>

#include "connection.hpp"

namespace {

constexpr std::uint32_t immediate = 0x0100feca;  // ca fe 00 01 on the wire
constexpr auto sizes = {1U, 3U, 64U, 1000U, 1024U, 1025U, 4096U, 10001U};

ibv_send_wr request(ibv_wr_opcode opcode, unsigned flags = 0) {
  ibv_send_wr made{};
  made.opcode = opcode;
  made.send_flags = flags;
  if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    made.imm_data = immediate;
  }
  return made;
}

ibv_send_wr towards(const machine& on, ibv_wr_opcode opcode, unsigned flags = 0) {
  auto made = request(opcode, flags);
  made.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(on.target.data());
  made.wr.rdma.rkey = on.target_region->rkey;
  return made;
}

ibv_send_wr atomic(const machine& on, ibv_wr_opcode opcode, std::uint64_t compare_or_add,
                   std::uint64_t swap = 0) {
  auto made = request(opcode);
  made.wr.atomic.remote_addr = reinterpret_cast<std::uintptr_t>(on.target.data());
  made.wr.atomic.rkey = on.target_region->rkey;
  made.wr.atomic.compare_add = compare_or_add;
  made.wr.atomic.swap = swap;
  return made;
}

void send(connection& over, ibv_send_wr wanted, std::uint32_t bytes) {
  over.post_receive();
  over.post(wanted, bytes);
  over.finish(IBV_WC_SUCCESS, true);
}

void access_memory(connection& over, ibv_send_wr wanted, std::uint32_t bytes,
                   ibv_wc_status expected = IBV_WC_SUCCESS) {
  over.post(wanted, bytes);
  over.finish(expected, false);
}

/// A window of the receiver for the sender to invalidate; returns its key.
std::uint32_t bind_window(machine& on, const connection& over) {
  auto* const window = need(ibv_alloc_mw(on.pd, IBV_MW_TYPE_2), "ibv_alloc_mw");
  auto wanted = request(IBV_WR_BIND_MW);
  wanted.bind_mw.mw = window;
  wanted.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  wanted.bind_mw.bind_info = {.mr = on.target_region,
                              .addr = reinterpret_cast<std::uintptr_t>(on.target.data()),
                              .length = 4096,
                              .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  ibv_send_wr* bad = nullptr;
  need(ibv_post_send(over.receiver(), &wanted, &bad) == 0, "binding a window");
  return wanted.bind_mw.rkey;
}

void send_with_invalidate(machine& on, connection& over, std::uint32_t bytes) {
  auto wanted = request(IBV_WR_SEND_WITH_INV);
  wanted.invalidate_rkey = bind_window(on, over);
  send(over, wanted, bytes);
}

void send_before_receive(connection& over, ibv_send_wr wanted, std::uint32_t bytes) {
  over.post(wanted, bytes);
  need(!over.poll(std::chrono::milliseconds(3)).has_value(), "sending without a receive request");
  over.post_receive();
  over.finish(IBV_WC_SUCCESS, true);
}

void access_with_wrong_key(const machine& on, connection& over, ibv_wr_opcode opcode) {
  auto wanted = towards(on, opcode);
  wanted.wr.rdma.rkey += 0x10000;
  access_memory(over, wanted, 64, IBV_WC_REM_ACCESS_ERR);
}

void recorded(machine& on) {
  connection reliable(on, IBV_QPT_RC);
  for (const auto bytes : sizes) send(reliable, request(IBV_WR_SEND, IBV_SEND_SOLICITED), bytes);
  send(reliable, request(IBV_WR_SEND_WITH_IMM), 10);
  send(reliable, request(IBV_WR_SEND_WITH_IMM), 3000);
  for (const auto bytes : sizes) access_memory(reliable, towards(on, IBV_WR_RDMA_WRITE), bytes);
  access_memory(reliable, towards(on, IBV_WR_RDMA_WRITE), 0);
  send(reliable, towards(on, IBV_WR_RDMA_WRITE_WITH_IMM), 100);
  send(reliable, towards(on, IBV_WR_RDMA_WRITE_WITH_IMM), 5000);
  for (const auto bytes : sizes) access_memory(reliable, towards(on, IBV_WR_RDMA_READ), bytes);
  access_memory(reliable,
                atomic(on, IBV_WR_ATOMIC_CMP_AND_SWP, 0x1122334455667788, 0x99aabbccddeeff00), 8);
  access_memory(reliable, atomic(on, IBV_WR_ATOMIC_FETCH_AND_ADD, 5), 8);
  send_with_invalidate(on, reliable, 20);
  send_before_receive(reliable, request(IBV_WR_SEND), 32);
  access_with_wrong_key(on, reliable, IBV_WR_RDMA_WRITE);

  connection impatient(on, IBV_QPT_RC, {.rnr_retry = 1});
  impatient.post(request(IBV_WR_SEND, IBV_SEND_SOLICITED), 16);
  impatient.finish(IBV_WC_RNR_RETRY_EXC_ERR, false);

  connection narrow(on, IBV_QPT_RC);
  narrow.post_receive(8, on.target_region->lkey);
  narrow.post(request(IBV_WR_SEND, IBV_SEND_SOLICITED), 16);
  narrow.finish(IBV_WC_REM_INV_REQ_ERR, true);

  connection unreliable(on, IBV_QPT_UC);
  send(unreliable, request(IBV_WR_SEND, IBV_SEND_SOLICITED), 3000);
  send(unreliable, towards(on, IBV_WR_RDMA_WRITE_WITH_IMM), 3000);
  access_memory(unreliable, towards(on, IBV_WR_RDMA_WRITE), 100);
}

void unreliable_kinds(machine& on) {
  connection unreliable(on, IBV_QPT_UC);
  send(unreliable, request(IBV_WR_SEND), 5);
  send(unreliable, request(IBV_WR_SEND_WITH_IMM), 5);
  send(unreliable, request(IBV_WR_SEND_WITH_IMM), 3000);
  send(unreliable, towards(on, IBV_WR_RDMA_WRITE_WITH_IMM), 5);
  access_memory(unreliable, towards(on, IBV_WR_RDMA_WRITE), 3000);
}

void datagram_kinds(machine& on) {
  connection datagrams(on, IBV_QPT_UD);
  auto path = datagrams.path();
  auto* const handle = need(ibv_create_ah(on.pd, &path), "ibv_create_ah");
  for (const auto opcode : {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM}) {
    auto wanted = request(opcode);
    wanted.wr.ud.ah = handle;
    wanted.wr.ud.remote_qpn = datagrams.receiver()->qp_num;
    wanted.wr.ud.remote_qkey = connection::qkey;
    send(datagrams, wanted, 301);
  }
}

void extended_kinds(machine& on) {
  connection extended(on, IBV_QPT_XRC_SEND);
  for (const auto bytes : {5U, 3000U}) {
    send(extended, request(IBV_WR_SEND), bytes);
    send(extended, request(IBV_WR_SEND_WITH_IMM), bytes);
    access_memory(extended, towards(on, IBV_WR_RDMA_WRITE), bytes);
    send(extended, towards(on, IBV_WR_RDMA_WRITE_WITH_IMM), bytes);
    access_memory(extended, towards(on, IBV_WR_RDMA_READ), bytes);
  }
  access_memory(extended, atomic(on, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 2), 8);
  access_memory(extended, atomic(on, IBV_WR_ATOMIC_FETCH_AND_ADD, 3), 8);
  // No window is bound through a queue pair that only receives, so there is none to invalidate.
  for (const auto bytes : {5U, 3000U}) {
    connection invalidating(on, IBV_QPT_XRC_SEND);
    auto wanted = request(IBV_WR_SEND_WITH_INV);
    wanted.invalidate_rkey = 0x12345600;
    invalidating.post_receive();
    invalidating.post(wanted, bytes);
    invalidating.finish(IBV_WC_REM_ACCESS_ERR, false);
  }
}

void refusals(machine& on) {
  connection without_reads(on, IBV_QPT_RC, {.reads_at_once = 0});
  access_memory(without_reads, towards(on, IBV_WR_RDMA_READ), 8, IBV_WC_REM_INV_REQ_ERR);

  connection closed(on, IBV_QPT_RC);
  access_with_wrong_key(on, closed, IBV_WR_RDMA_READ);

  connection confused(on, IBV_QPT_RC);
  confused.post_receive(64, on.target_region->lkey + 0x10000);
  confused.post(request(IBV_WR_SEND), 16);
  confused.finish(IBV_WC_REM_OP_ERR, true);
}

void kinds(machine& on) {
  connection reliable(on, IBV_QPT_RC);
  send_with_invalidate(on, reliable, 3000);
  access_memory(reliable, towards(on, IBV_WR_RDMA_READ), 0);
  unreliable_kinds(on);
  datagram_kinds(on);
  extended_kinds(on);
  refusals(on);
}

void transfer(machine& on) {
  connection reliable(on, IBV_QPT_RC);
  for (int i = 0; i < 40; ++i) {
    send(reliable, request(IBV_WR_SEND), 9000);
    access_memory(reliable, towards(on, IBV_WR_RDMA_READ), 9000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv, argv + argc);
  need(arguments.size() == 4, "capture_traffic <device> <gid index> <scene>");
  machine on(argv[1], static_cast<std::uint8_t>(std::strtoul(argv[2], nullptr, 10)));
  const auto scene = arguments[3];
  need(scene == "recorded" || scene == "kinds" || scene == "transfer", "choosing a scene");
  if (scene == "recorded") recorded(on);
  if (scene == "kinds") kinds(on);
  if (scene == "transfer") transfer(on);
  return 0;
}
