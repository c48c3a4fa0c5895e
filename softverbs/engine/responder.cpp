#include <engine/responder.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include <base/log.hpp>
#include <engine/management.hpp>
#include <engine/queue_pair.hpp>
#include <netinet/in.h>

namespace softverbs::engine {
namespace {

using wire::operation;

constexpr std::size_t grh_bytes = 40;
// What one call answers before others get their turn.
constexpr std::size_t burst_bytes = std::size_t{128} * 1024;
// 9.7.4.1: no message is longer.
constexpr std::uint32_t longest_message = std::uint32_t{1} << 31;
// What a requester may ask for again before the answers to that have left.
constexpr std::size_t most_repeated_answers = 512;

bool is_first(operation op) { return op == operation::send_first || op == operation::write_first; }
bool is_only(operation op) {
  return op == operation::send_only || op == operation::send_only_immediate ||
         op == operation::send_only_invalidate || op == operation::write_only ||
         op == operation::write_only_immediate;
}
bool is_middle(operation op) {
  return op == operation::send_middle || op == operation::write_middle;
}
bool is_send(operation op) {
  return op <= operation::send_only_immediate || op == operation::send_last_invalidate ||
         op == operation::send_only_invalidate;
}
bool is_write(operation op) {
  return op >= operation::write_first && op <= operation::write_only_immediate;
}
bool has_immediate(operation op) {
  return op == operation::send_last_immediate || op == operation::send_only_immediate ||
         op == operation::write_last_immediate || op == operation::write_only_immediate;
}
bool has_invalidate(operation op) {
  return op == operation::send_last_invalidate || op == operation::send_only_invalidate;
}
bool ends_message(operation op) { return !is_first(op) && !is_middle(op); }

std::uint32_t packets_of(std::uint32_t bytes, std::size_t mtu) {
  return bytes == 0 ? 1 : static_cast<std::uint32_t>((bytes + mtu - 1) / mtu);
}

operation response_operation(bool first, bool last) {
  if (first) return last ? operation::read_response_only : operation::read_response_first;
  return last ? operation::read_response_last : operation::read_response_middle;
}

/// Returns what the cell held before. Atomic also towards the processors of this host.
std::uint64_t carry_out_atomic(const wire::headers& header, std::byte* target) {
  const std::atomic_ref<std::uint64_t> cell(*reinterpret_cast<std::uint64_t*>(target));
  if (header.op == operation::fetch_add) return cell.fetch_add(header.swap_or_add);
  auto original = header.compare;
  cell.compare_exchange_strong(original, header.swap_or_add);
  return original;
}

/// The 40 bytes in front of a UD message: the IPv6 header, or, as RoCEv2 devices do, an IPv4 header
/// in the last 20 of them (annex A17.4.5.2).
std::array<std::byte, grh_bytes> global_route_header(const inbound& in) {
  std::array<std::uint8_t, grh_bytes> raw{};
  const auto udp_bytes = in.packet.payload.size() + in.packet.header.pad_bytes + 8 +
                         wire::header_bytes(in.packet.header.service, in.packet.header.op) +
                         wire::icrc_bytes;
  if (in.source.is_ipv4()) {
    auto* const ip = raw.data() + 20;
    const auto total = udp_bytes + 20;
    ip[0] = 0x45;
    ip[2] = static_cast<std::uint8_t>(total >> 8);
    ip[3] = static_cast<std::uint8_t>(total);
    ip[6] = 0x40;
    ip[8] = 64;
    ip[9] = IPPROTO_UDP;
    std::memcpy(ip + 12, in.source.raw.data() + 12, 4);
    std::memcpy(ip + 16, in.destination.raw.data() + 12, 4);
    std::uint32_t sum = 0;
    for (int i = 0; i < 20; i += 2) sum += static_cast<std::uint32_t>(ip[i] << 8 | ip[i + 1]);
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    ip[10] = static_cast<std::uint8_t>(~sum >> 8);
    ip[11] = static_cast<std::uint8_t>(~sum);
  } else {
    raw[0] = 0x60;
    raw[4] = static_cast<std::uint8_t>(udp_bytes >> 8);
    raw[5] = static_cast<std::uint8_t>(udp_bytes);
    raw[6] = IPPROTO_UDP;
    raw[7] = 64;
    std::memcpy(raw.data() + 8, in.source.raw.data(), 16);
    std::memcpy(raw.data() + 24, in.destination.raw.data(), 16);
  }
  return std::bit_cast<std::array<std::byte, grh_bytes>>(raw);
}

}  // namespace

void responder::reset(std::uint32_t first_psn) {
  expected_ = first_psn & wire::psn_mask;
  msn_ = 0;
  refused_ = established_ = discarding_ = have_receive_ = answer_due_ = false;
  under_way_ = message::none;
  received_ = 0;
  answers_.clear();
  resources_.clear();
}

bool responder::take_current_receive(receive_work& out) {
  if (!have_receive_) return false;
  have_receive_ = false;
  std::swap(out, receive_);
  return true;
}

void responder::on_request(const inbound& in) {
  if (qp_.made.type == IBV_QPT_UC) {
    on_unreliable(in);
  } else {
    on_reliable(in);
  }
}

// --- order -----------------------------------------------------------------------------------

void responder::on_reliable(const inbound& in) {
  const auto& header = in.packet.header;
  const auto distance = wire::psn_distance(expected_, header.psn);
  if (distance < 0) {
    on_duplicate(header);
    return;
  }
  if (distance > 0) {
    if (!refused_) {
      log(log_level::debug, "queue pair {:#x} refuses packet {} of a gap: it expects {}",
          qp_.where->qpn, header.psn, expected_);
      refuse(wire::syndrome_nak | static_cast<std::uint8_t>(wire::nak::sequence));
    }
    return;
  }
  refused_ = false;
  if (!established_) {
    established_ = true;
    if (qp_.attributes.qp_state == IBV_QPS_RTR) qp_.raise(IBV_EVENT_COMM_EST);
    first_data_came(qp_.where->qpn);
  }
  if (!sequence_is_good(in.packet)) {
    reject(wire::nak::invalid_request, IBV_WC_LOC_QP_OP_ERR, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  accept(in);
}

void responder::on_unreliable(const inbound& in) {
  const auto& header = in.packet.header;
  const bool starts = is_first(header.op) || is_only(header.op);
  // 9.8.2.2.1: a gap damages the message that it lies in, and nothing else.
  if (header.psn != expected_ && under_way_ != message::none) {
    under_way_ = message::none;
    discarding_ = true;
    // The receive request serves the next message.
  }
  expected_ = header.psn;
  if (starts) {
    discarding_ = false;
    under_way_ = message::none;
  }
  if (header.ack_request) acknowledge();
  due_psn_ = header.psn;
  if (discarding_ || !sequence_is_good(in.packet)) {
    discarding_ = true;
    under_way_ = message::none;
    expected_ = (expected_ + 1) & wire::psn_mask;
    return;
  }
  accept(in);
}

bool responder::sequence_is_good(const wire::packet& packet) const {
  const auto op = packet.header.op;
  if (!wire::is_defined(packet.header.service, op)) return false;
  const auto bytes = packet.payload.size();
  const auto mtu = qp_.mtu();
  if (is_send(op) || is_write(op)) {
    const auto kind = is_send(op) ? message::send : message::write;
    if (is_first(op) || is_only(op)) {
      if (under_way_ != message::none) return false;
    } else if (under_way_ != kind) {
      return false;
    }
    // 9.7.4.1.6: first and middle packets are full, a last one is not empty.
    if (is_first(op) || is_middle(op)) return bytes == mtu;
    return bytes <= mtu && (bytes > 0 || is_only(op));
  }
  return under_way_ == message::none;
}

void responder::accept(const inbound& in) {
  const auto op = in.packet.header.op;
  remote_pd_ = qp_.made.pd;
  if (qp_.made.type == IBV_QPT_XRC_RECV) {
    // Annex A14: an XRC target has no protection domain of its own; it borrows that of the shared
    // receive queue that the packet names.
    srq_directory::of_process().with(qp_.made.domain, in.packet.header.xrc_srqn,
                                     [&](shared_receive_queue& srq) { remote_pd_ = srq.pd; });
  }
  if (is_send(op)) {
    receive_send(in.packet);
  } else if (is_write(op)) {
    receive_write(in.packet);
  } else if (op == operation::read_request) {
    receive_read(in.packet.header);
  } else {
    receive_atomic(in.packet.header);
  }
}

void responder::on_duplicate(const wire::headers& header) {
  if (!wire::is_defined(header.service, header.op)) return;
  // 9.7.5.1.2: sends and writes are acknowledged again, reads carried out again, atomics answered
  // from memory.
  const bool is_atomic = header.op == operation::compare_swap || header.op == operation::fetch_add;
  if (header.op != operation::read_request && !is_atomic) {
    // Even where no answer is asked for: a peer that comes again does not know how far we are, and
    // if the rest of its train is lost again, will never ask. A refusal that is about to be sent
    // acknowledges as much.
    const bool refusing = answer_due_ && due_syndrome_ != wire::syndrome_ack;
    if (!refusing) acknowledge();
    return;
  }
  const auto kept = std::ranges::find_if(resources_, [&](const answer& each) {
    const auto distance = wire::psn_distance(each.first_psn, header.psn);
    return each.is_atomic == is_atomic && distance >= 0 &&
           distance < static_cast<std::int32_t>(each.packets);
  });
  if (kept == resources_.end()) return;
  // The requester asks again for everything from here on: what is still to be sent is outdated.
  std::erase_if(answers_, [&](const answer& each) {
    return wire::psn_distance(header.psn, (each.first_psn + each.packets - 1) & wire::psn_mask) >=
           0;
  });
  answer again = *kept;
  again.sent = 0;
  again.repeated = true;
  if (!is_atomic) {
    const auto skipped =
        static_cast<std::uint32_t>(wire::psn_distance(kept->first_psn, header.psn));
    if (header.rkey != kept->rkey || header.dma_length > kept->bytes ||
        skipped + packets_of(header.dma_length, qp_.mtu()) > kept->packets) {
      return;
    }
    again.first_psn = header.psn;
    again.address = header.remote_address;
    again.bytes = header.dma_length;
    again.packets = packets_of(header.dma_length, qp_.mtu());
  }
  if (answers_.size() < most_repeated_answers) answers_.push_back(again);
}

// --- messages --------------------------------------------------------------------------------

bool responder::need_receive(const wire::headers& header) {
  if (have_receive_) return true;
  receive_cq_ = qp_.made.receive_cq;
  receive_pd_ = qp_.made.srq != nullptr ? qp_.made.srq->pd : qp_.made.pd;
  if (qp_.made.type == IBV_QPT_XRC_RECV) {
    const bool known = srq_directory::of_process().with(qp_.made.domain, header.xrc_srqn,
                                                        [&](shared_receive_queue& srq) {
                                                          have_receive_ = srq.take(receive_);
                                                          receive_cq_ = srq.cq;
                                                          receive_pd_ = srq.pd;
                                                        });
    if (!known) {
      reject(wire::nak::invalid_request, IBV_WC_LOC_QP_OP_ERR, IBV_EVENT_QP_REQ_ERR);
      return false;
    }
  } else if (qp_.made.srq != nullptr) {
    have_receive_ = qp_.made.srq->take(receive_);
  } else if (!qp_.receives.is_empty()) {
    qp_.receives.pop(receive_);
    have_receive_ = true;
  }
  if (!have_receive_ && qp_.made.type != IBV_QPT_UC && qp_.made.type != IBV_QPT_UD) {
    refuse(static_cast<std::uint8_t>(wire::syndrome_rnr | qp_.attributes.min_rnr_timer));
  }
  return have_receive_;
}

ibv_wc_status responder::scatter(std::span<const std::byte> bytes, std::uint64_t offset) {
  const memory_table::use memory(qp_.context.memory);
  for (const auto& element : receive_.into) {
    if (bytes.empty()) break;
    if (offset >= element.length) {
      offset -= element.length;
      continue;
    }
    const auto here = std::min<std::uint64_t>(bytes.size(), element.length - offset);
    auto* const into = memory.locate({.key = element.lkey,
                                      .pd = receive_pd_,
                                      .address = element.addr + offset,
                                      .bytes = here,
                                      .access = IBV_ACCESS_LOCAL_WRITE});
    if (into == nullptr) return IBV_WC_LOC_PROT_ERR;
    std::memcpy(into, bytes.data(), here);
    bytes = bytes.subspan(here);
    offset = 0;
  }
  return bytes.empty() ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
}

void responder::receive_send(const wire::packet& packet) {
  const auto& header = packet.header;
  const bool starts = is_first(header.op) || is_only(header.op);
  if (starts) {
    if (!need_receive(header)) {
      if (qp_.made.type == IBV_QPT_UC) {  // lost, silently
        discarding_ = true;
        expected_ = (expected_ + 1) & wire::psn_mask;
      }
      return;
    }
    received_ = 0;
    under_way_ = message::send;
  }
  const auto status = scatter(packet.payload, received_);
  if (status != IBV_WC_SUCCESS) {
    reject(
        status == IBV_WC_LOC_LEN_ERR ? wire::nak::invalid_request : wire::nak::remote_operational,
        status, IBV_EVENT_QP_FATAL);
    return;
  }
  received_ += packet.payload.size();
  if (ends_message(header.op)) {
    if (has_invalidate(header.op) &&
        !qp_.context.memory.invalidate(header.invalidate_rkey, remote_pd_, qp_.where->qpn)) {
      reject(wire::nak::remote_access, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
      return;
    }
    ibv_wc wc{};
    wc.opcode = IBV_WC_RECV;
    wc.byte_len = static_cast<std::uint32_t>(received_);
    if (has_immediate(header.op)) {
      wc.wc_flags = IBV_WC_WITH_IMM;
      wc.imm_data = header.immediate;
    } else if (has_invalidate(header.op)) {
      wc.wc_flags = IBV_WC_WITH_INV;
      wc.invalidated_rkey = header.invalidate_rkey;
    }
    message_is_complete(header);
    complete_receive(wc, header.solicited);
    return;
  }
  expected_ = (expected_ + 1) & wire::psn_mask;
  if (header.ack_request && qp_.made.type != IBV_QPT_UC) acknowledge();
}

void responder::receive_write(const wire::packet& packet) {
  const auto& header = packet.header;
  const bool unreliable = qp_.made.type == IBV_QPT_UC;
  const bool starts = is_first(header.op) || is_only(header.op);
  if (starts) {
    write_address_ = header.remote_address;
    write_rkey_ = header.rkey;
    write_left_ = header.dma_length;
  }
  const bool ends = ends_message(header.op);
  const auto bytes = packet.payload.size();
  if (write_left_ > longest_message || bytes > write_left_ || (ends && bytes != write_left_)) {
    reject(wire::nak::invalid_request, IBV_WC_LOC_QP_OP_ERR, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  const bool allowed = (qp_.attributes.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0;
  std::byte* into = nullptr;
  {
    const memory_table::use memory(qp_.context.memory);
    if (write_left_ != 0) {
      // The whole rest is checked with each packet: the first one decides about the message, and a
      // region that goes away in between stops it.
      into = memory.locate({.key = write_rkey_,
                            .pd = remote_pd_,
                            .address = write_address_,
                            .bytes = write_left_,
                            .access = IBV_ACCESS_REMOTE_WRITE,
                            .remote = true,
                            .qpn = qp_.where->qpn});
    }
    if (allowed && into != nullptr && !(ends && has_immediate(header.op))) {
      std::memcpy(into, packet.payload.data(), bytes);
    }
  }
  if (!allowed || (write_left_ != 0 && into == nullptr)) {
    reject(wire::nak::remote_access, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  if (ends && has_immediate(header.op)) {
    // Nothing of this packet counts before there is a receive request for the immediate.
    if (!need_receive(header)) {
      if (unreliable) {
        discarding_ = true;
        under_way_ = message::none;
        expected_ = (expected_ + 1) & wire::psn_mask;
      }
      return;
    }
    const memory_table::use memory(qp_.context.memory);
    into = memory.locate({.key = write_rkey_,
                          .pd = remote_pd_,
                          .address = write_address_,
                          .bytes = write_left_,
                          .access = IBV_ACCESS_REMOTE_WRITE,
                          .remote = true,
                          .qpn = qp_.where->qpn});
    if (into != nullptr && bytes != 0) std::memcpy(into, packet.payload.data(), bytes);
  }
  if (starts) received_ = 0;
  under_way_ = message::write;
  received_ += bytes;
  write_address_ += bytes;
  write_left_ -= bytes;
  if (!ends) {
    expected_ = (expected_ + 1) & wire::psn_mask;
    if (header.ack_request && !unreliable) acknowledge();
    return;
  }
  message_is_complete(header);
  if (has_immediate(header.op)) {
    ibv_wc wc{};
    wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    wc.byte_len = static_cast<std::uint32_t>(received_);
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.imm_data = header.immediate;
    complete_receive(wc, header.solicited);
  }
}

void responder::message_is_complete(const wire::headers& header) {
  under_way_ = message::none;
  expected_ = (expected_ + 1) & wire::psn_mask;
  msn_ = (msn_ + 1) & wire::psn_mask;
  if (qp_.made.type != IBV_QPT_UC && header.ack_request) acknowledge();
}

void responder::complete_receive(ibv_wc wc, bool solicited) {
  have_receive_ = false;
  wc.wr_id = receive_.wr_id;
  wc.qp_num = qp_.where->qpn;
  if (wc.src_qp == 0) wc.src_qp = qp_.attributes.dest_qp_num;
  if (wc.status == IBV_WC_SUCCESS && fault_plan::of_process().is_active(fault_site::operation)) {
    wc.status = qp_.injected_status("RECV");
    qp_.push_completion(*receive_cq_, wc, solicited || wc.status != IBV_WC_SUCCESS);
    if (wc.status != IBV_WC_SUCCESS) qp_.enter_error();
    return;
  }
  qp_.push_completion(*receive_cq_, wc, solicited);
}

bool responder::may_answer_one_more() const {
  const auto most = qp_.attributes.max_dest_rd_atomic;
  return answers_.size() < most ||
         std::cmp_less(std::ranges::count(answers_, false, &answer::repeated), most);
}

void responder::receive_read(const wire::headers& header) {
  if (header.dma_length > longest_message || !may_answer_one_more()) {
    reject(wire::nak::invalid_request, IBV_WC_LOC_QP_OP_ERR, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  const bool allowed = (qp_.attributes.qp_access_flags & IBV_ACCESS_REMOTE_READ) != 0;
  bool good = allowed;
  if (good && header.dma_length != 0) {
    const memory_table::use memory(qp_.context.memory);
    good = memory.locate({.key = header.rkey,
                          .pd = remote_pd_,
                          .address = header.remote_address,
                          .bytes = header.dma_length,
                          .access = IBV_ACCESS_REMOTE_READ,
                          .remote = true,
                          .qpn = qp_.where->qpn}) != nullptr;
  }
  if (!good) {
    reject(wire::nak::remote_access, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  msn_ = (msn_ + 1) & wire::psn_mask;
  const answer next{.first_psn = header.psn,
                    .packets = packets_of(header.dma_length, qp_.mtu()),
                    .address = header.remote_address,
                    .rkey = header.rkey,
                    .bytes = header.dma_length,
                    .pd = remote_pd_,
                    .msn = msn_};
  answer_due_ = false;  // the response acknowledges everything before it
  answers_.push_back(next);
  resources_.push_back(next);
  if (resources_.size() > qp_.attributes.max_dest_rd_atomic) resources_.pop_front();
  expected_ = (expected_ + next.packets) & wire::psn_mask;
}

void responder::receive_atomic(const wire::headers& header) {
  constexpr auto alignment = sizeof(std::uint64_t);
  if (header.remote_address % alignment != 0 || !may_answer_one_more()) {
    reject(wire::nak::invalid_request, IBV_WC_LOC_QP_OP_ERR, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  answer next{.is_atomic = true, .first_psn = header.psn};
  bool allowed = (qp_.attributes.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) != 0;
  bool aligned = true;
  if (allowed) {
    const memory_table::use memory(qp_.context.memory);
    auto* const target = memory.locate({.key = header.rkey,
                                        .pd = remote_pd_,
                                        .address = header.remote_address,
                                        .bytes = sizeof(std::uint64_t),
                                        .access = IBV_ACCESS_REMOTE_ATOMIC,
                                        .remote = true,
                                        .qpn = qp_.where->qpn});
    allowed = target != nullptr;
    // A region or window that counts from another address than its memory's may hide it.
    aligned = reinterpret_cast<std::uintptr_t>(target) % alignment == 0;
    if (allowed && aligned) next.original = carry_out_atomic(header, target);
  }
  if (allowed && !aligned) {
    reject(wire::nak::invalid_request, IBV_WC_LOC_QP_OP_ERR, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  if (!allowed) {
    reject(wire::nak::remote_access, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  msn_ = (msn_ + 1) & wire::psn_mask;
  next.msn = msn_;
  answer_due_ = false;
  answers_.push_back(next);
  resources_.push_back(next);
  if (resources_.size() > qp_.attributes.max_dest_rd_atomic) resources_.pop_front();
  expected_ = (expected_ + 1) & wire::psn_mask;
}

// A17.4.5.1: a completion tells what kind of packet a datagram came in. Its place is the service
// level, as with the hardware that UCX knows, which finds the destination's GID by it.
constexpr std::uint8_t udp_over_ipv6 = 0b1001;
constexpr std::uint8_t udp_over_ipv4 = 0b1010;

void responder::on_datagram(const inbound& in) {
  const auto& header = in.packet.header;
  if (header.op != operation::send_only && header.op != operation::send_only_immediate) return;
  if (header.qkey != qp_.attributes.qkey) return;  // 10.2.5: dropped silently
  if (!need_receive(header)) return;
  const auto grh = global_route_header(in);
  ibv_wc wc{};
  wc.opcode = IBV_WC_RECV;
  wc.wc_flags = IBV_WC_GRH;
  wc.src_qp = header.source_qpn;
  wc.sl = in.destination.is_ipv4() ? udp_over_ipv4 : udp_over_ipv6;
  if (header.op == operation::send_only_immediate) {
    wc.wc_flags |= IBV_WC_WITH_IMM;
    wc.imm_data = header.immediate;
  }
  wc.byte_len = static_cast<std::uint32_t>(in.packet.payload.size() + grh_bytes);
  wc.status = receive_.capacity() < wc.byte_len ? IBV_WC_LOC_LEN_ERR : scatter(grh, 0);
  if (wc.status == IBV_WC_SUCCESS) wc.status = scatter(in.packet.payload, grh_bytes);
  complete_receive(wc, header.solicited);
  if (wc.status != IBV_WC_SUCCESS) qp_.enter_error();
}

// --- answers ---------------------------------------------------------------------------------

wire::headers responder::answer_header(operation op, std::uint32_t psn) const {
  return {.service = qp_.service(),
          .op = op,
          .destination_qpn = qp_.attributes.dest_qp_num,
          .psn = psn & wire::psn_mask,
          .syndrome = wire::syndrome_ack,
          .msn = msn_};
}

void responder::acknowledge() {
  answer_due_ = true;
  due_syndrome_ = wire::syndrome_ack;
  due_psn_ = (expected_ - 1) & wire::psn_mask;
}

void responder::refuse(std::uint8_t syndrome) {
  refused_ = true;
  answer_due_ = true;
  due_syndrome_ = syndrome;
  due_psn_ = expected_;
}

void responder::reject(wire::nak code, ibv_wc_status receive_status, ibv_event_type event) {
  if (qp_.made.type == IBV_QPT_UC) {
    // 9.8.2.2: an unreliable queue pair drops what it cannot use; only a receive request that does
    // not fit fails, and the queue pair with it.
    discarding_ = true;
    under_way_ = message::none;
    expected_ = (expected_ + 1) & wire::psn_mask;
    if (!have_receive_ ||
        (receive_status != IBV_WC_LOC_LEN_ERR && receive_status != IBV_WC_LOC_PROT_ERR))
      return;
    ibv_wc wc{};
    wc.status = receive_status;
    complete_receive(wc, true);
    qp_.enter_error();
    return;
  }
  refuse(static_cast<std::uint8_t>(wire::syndrome_nak | static_cast<std::uint8_t>(code)));
  while (pump()) {
  }
  if (have_receive_) {
    ibv_wc wc{};
    wc.status = receive_status;
    complete_receive(wc, true);
  } else {
    qp_.raise(event);
  }
  qp_.enter_error();
}

bool responder::pump() {
  if (qp_.context.place->is_frozen()) return false;
  if (qp_.connected == nullptr) {
    answers_.clear();
    answer_due_ = false;
    return false;
  }
  const auto mtu = qp_.mtu();
  while (!answers_.empty()) {
    auto& next = answers_.front();
    const memory_table::use memory(qp_.context.memory);
    sender out(*qp_.connected, qp_.origin);
    if (next.is_atomic) {
      auto header = answer_header(operation::atomic_acknowledge, next.first_psn);
      header.msn = next.msn;
      header.original = next.original;
      out.add(header, {});
      answers_.pop_front();
      continue;
    }
    while (next.sent < next.packets) {
      if (out.bytes() >= burst_bytes) return true;
      if (!qp_.connected->has_room(mtu)) {
        qp_.look_again(clock::now() + room_wait_.next());
        return false;
      }
      room_wait_.reset();
      const auto offset = next.sent * mtu;
      const auto bytes = std::min<std::uint64_t>(mtu, next.bytes - offset);
      iovec payload{};
      if (bytes != 0) {
        payload = {.iov_base = memory.locate({.key = next.rkey,
                                              .pd = next.pd,
                                              .address = next.address + offset,
                                              .bytes = bytes,
                                              .access = IBV_ACCESS_REMOTE_READ,
                                              .remote = true,
                                              .qpn = qp_.where->qpn}),
                   .iov_len = bytes};
        if (payload.iov_base == nullptr) {
          // The region has gone since the request was accepted.
          auto header = answer_header(operation::acknowledge, next.first_psn + next.sent);
          header.syndrome =
              wire::syndrome_nak | static_cast<std::uint8_t>(wire::nak::remote_access);
          out.add(header, {});
          answers_.clear();
          return false;
        }
      }
      const bool first = next.sent == 0;
      const bool last = next.sent + 1 == next.packets;
      const auto op = response_operation(first, last);
      auto header = answer_header(op, next.first_psn + next.sent);
      header.msn = next.msn;
      out.add(header, {&payload, bytes != 0 ? std::size_t{1} : 0});
      ++next.sent;
    }
    answers_.pop_front();
  }
  if (answer_due_) send_simple_answer();
  return false;
}

void responder::send_simple_answer() {
  answer_due_ = false;
  sender out(*qp_.connected, qp_.origin);
  auto header = answer_header(operation::acknowledge, due_psn_);
  header.syndrome = due_syndrome_;
  out.add(header, {});
}

}  // namespace softverbs::engine
