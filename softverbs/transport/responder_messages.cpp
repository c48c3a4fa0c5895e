// What incoming messages ask for: sends and writes into memory, reads, atomics, datagrams.
#include <algorithm>
#include <atomic>
#include <cstring>

#include <transport/grh.hpp>
#include <transport/operations.hpp>
#include <transport/payload.hpp>
#include <transport/responder.hpp>

namespace softverbs::transport {
namespace {

/// Returns what the cell held before. Atomic also towards the processors of this host.
std::uint64_t carry_out_atomic(const wire::headers& header, std::byte* target) {
  const std::atomic_ref<std::uint64_t> cell(*reinterpret_cast<std::uint64_t*>(target));
  if (header.op == operation::fetch_add) return cell.fetch_add(header.swap_or_add);
  auto original = header.compare;
  cell.compare_exchange_strong(original, header.swap_or_add);
  return original;
}

}  // namespace

void responder::accept(const wire::packet& packet) {
  const auto op = packet.header.op;
  // Annex A14: an XRC target has no protection domain of its own; it borrows that of the shared
  // receive queue that the packet names.
  remote_domain_ = around_.made.kind == service::xrc_receive
                       ? around_.front.domain_of_queue(packet.header.xrc_srqn)
                       : around_.made.domain;
  if (is_send(op)) {
    receive_send(packet);
  } else if (is_write(op)) {
    receive_write(packet);
  } else if (op == operation::read_request) {
    receive_read(packet.header);
  } else {
    receive_atomic(packet.header);
  }
}

std::byte* responder::locate(const memory_keys::use& memory, std::uint32_t rkey,
                             std::uint64_t address, std::uint64_t bytes, unsigned rights) const {
  return memory.locate({.key = rkey,
                        .domain = remote_domain_,
                        .address = address,
                        .bytes = bytes,
                        .rights = rights,
                        .remote = true,
                        .qpn = around_.made.qpn});
}

bool responder::need_receive(const wire::headers& header) {
  if (have_receive_) return true;
  switch (around_.front.take_receive(header.xrc_srqn, receive_)) {
    case front_end::taken::request:
      have_receive_ = true;
      break;
    case front_end::taken::nothing:
      if (!is_unreliable())
        refuse(static_cast<std::uint8_t>(wire::syndrome_rnr | around_.agreed.min_rnr_timer));
      break;
    case front_end::taken::no_such_queue:
      reject(wire::nak::invalid_request, status::local_operation_error, event::request_error);
      break;
  }
  return have_receive_;
}

status responder::scatter(std::span<const std::byte> bytes, std::uint64_t offset) {
  const memory_keys::use memory(around_.memory);
  for (const auto& element : receive_.into) {
    if (bytes.empty()) break;
    if (offset >= element.length) {
      offset -= element.length;
      continue;
    }
    const auto here = std::min<std::uint64_t>(bytes.size(), element.length - offset);
    auto* const into = memory.locate({.key = element.key,
                                      .domain = receive_.domain,
                                      .address = element.address + offset,
                                      .bytes = here,
                                      .rights = access::local_write});
    if (into == nullptr) return status::local_protection_error;
    std::memcpy(into, bytes.data(), here);
    bytes = bytes.subspan(here);
    offset = 0;
  }
  return bytes.empty() ? status::success : status::local_length_error;
}

void responder::receive_send(const wire::packet& packet) {
  const auto& header = packet.header;
  if (starts_message(header.op)) {
    if (!need_receive(header)) {
      if (is_unreliable()) discard();  // lost, silently
      return;
    }
    received_ = 0;
    under_way_ = message::send;
  }
  const auto copied = scatter(packet.payload, received_);
  if (copied != status::success) {
    reject(copied == status::local_length_error ? wire::nak::invalid_request
                                                : wire::nak::remote_operational,
           copied, event::fatal);
    return;
  }
  received_ += packet.payload.size();
  if (!ends_message(header.op)) {
    expect_next();
    if (header.ack_request && !is_unreliable()) acknowledge();
    return;
  }
  const bool invalidates = has_invalidate(header.op);
  if (invalidates &&
      !around_.memory.invalidate(header.invalidate_rkey, remote_domain_, around_.made.qpn)) {
    reject(wire::nak::remote_access, status::local_access_error, event::access_error);
    return;
  }
  message_is_complete(header);
  complete_receive({.request = receive_,
                    .solicited = header.solicited,
                    .bytes = static_cast<std::uint32_t>(received_),
                    .has_immediate = has_immediate(header.op),
                    .immediate = header.immediate,
                    .has_invalidated = invalidates,
                    .invalidated_rkey = header.invalidate_rkey});
}

void responder::receive_write(const wire::packet& packet) {
  const auto& header = packet.header;
  if (starts_message(header.op)) {
    write_address_ = header.remote_address;
    write_rkey_ = header.rkey;
    write_left_ = header.dma_length;
  }
  const bool ends = ends_message(header.op);
  const auto bytes = packet.payload.size();
  if (write_left_ > longest_message || bytes > write_left_ || (ends && bytes != write_left_)) {
    reject(wire::nak::invalid_request, status::local_operation_error, event::request_error);
    return;
  }
  const bool completes_receive = ends && has_immediate(header.op);
  // The whole rest is checked with each packet: the first one decides about the message, and a
  // region that goes away in between stops it.
  const auto find = [&](const memory_keys::use& memory) {
    return locate(memory, write_rkey_, write_address_, write_left_, access::remote_write);
  };
  bool allowed = peer_may(access::remote_write);
  if (allowed && write_left_ != 0) {
    const memory_keys::use memory(around_.memory);
    auto* const into = find(memory);
    allowed = into != nullptr;
    if (allowed && !completes_receive) std::memcpy(into, packet.payload.data(), bytes);
  }
  if (!allowed) {
    reject(wire::nak::remote_access, status::local_access_error, event::access_error);
    return;
  }
  if (completes_receive) {
    // Nothing of this packet counts before there is a receive request for the immediate.
    if (!need_receive(header)) {
      if (is_unreliable()) discard();
      return;
    }
    const memory_keys::use memory(around_.memory);
    if (bytes != 0) {
      if (auto* const into = find(memory)) std::memcpy(into, packet.payload.data(), bytes);
    }
  }
  if (starts_message(header.op)) received_ = 0;
  under_way_ = message::write;
  received_ += bytes;
  write_address_ += bytes;
  write_left_ -= bytes;
  if (!ends) {
    expect_next();
    if (header.ack_request && !is_unreliable()) acknowledge();
    return;
  }
  message_is_complete(header);
  if (completes_receive) {
    complete_receive({.request = receive_,
                      .what = receive_completion::kind::write_immediate,
                      .solicited = header.solicited,
                      .bytes = static_cast<std::uint32_t>(received_),
                      .has_immediate = true,
                      .immediate = header.immediate});
  }
}

void responder::message_is_complete(const wire::headers& header) {
  under_way_ = message::none;
  expect_next();
  msn_ = (msn_ + 1) & wire::psn_mask;
  if (!is_unreliable() && header.ack_request) acknowledge();
}

void responder::complete_receive(receive_completion done) {
  have_receive_ = false;
  const bool good = done.result == status::success;
  const bool kept = around_.front.complete(done);
  if (!failure_ && (!kept || !good)) failure_ = failure{};
}

void responder::answer_later(response accepted, std::uint32_t packets) {
  msn_ = (msn_ + 1) & wire::psn_mask;
  accepted.msn = msn_;
  answer_due_ = false;  // the response acknowledges everything before it
  resources_.add(accepted, around_.agreed.max_dest_rd_atomic);
  expect_next(packets);
}

void responder::receive_read(const wire::headers& header) {
  if (header.dma_length > longest_message ||
      !resources_.has_room(around_.agreed.max_dest_rd_atomic)) {
    reject(wire::nak::invalid_request, status::local_operation_error, event::request_error);
    return;
  }
  bool allowed = peer_may(access::remote_read);
  if (allowed && header.dma_length != 0) {
    const memory_keys::use memory(around_.memory);
    allowed = locate(memory, header.rkey, header.remote_address, header.dma_length,
                     access::remote_read) != nullptr;
  }
  if (!allowed) {
    reject(wire::nak::remote_access, status::local_access_error, event::access_error);
    return;
  }
  const auto packets = static_cast<std::uint32_t>(packets_of(header.dma_length, mtu()));
  answer_later({.first_psn = header.psn,
                .packets = packets,
                .address = header.remote_address,
                .rkey = header.rkey,
                .bytes = header.dma_length,
                .domain = remote_domain_},
               packets);
}

void responder::receive_atomic(const wire::headers& header) {
  constexpr auto alignment = sizeof(std::uint64_t);
  if (header.remote_address % alignment != 0 ||
      !resources_.has_room(around_.agreed.max_dest_rd_atomic)) {
    reject(wire::nak::invalid_request, status::local_operation_error, event::request_error);
    return;
  }
  response accepted{.is_atomic = true, .first_psn = header.psn};
  bool allowed = peer_may(access::remote_atomic);
  bool aligned = true;
  if (allowed) {
    const memory_keys::use memory(around_.memory);
    auto* const target =
        locate(memory, header.rkey, header.remote_address, alignment, access::remote_atomic);
    allowed = target != nullptr;
    // A region or window that counts from another address than its memory's may hide it.
    aligned = reinterpret_cast<std::uintptr_t>(target) % alignment == 0;
    if (allowed && aligned) accepted.original = carry_out_atomic(header, target);
  }
  if (!allowed) {
    reject(wire::nak::remote_access, status::local_access_error, event::access_error);
  } else if (!aligned) {
    reject(wire::nak::invalid_request, status::local_operation_error, event::request_error);
  } else {
    answer_later(accepted, 1);
  }
}

void responder::on_datagram(const wire::packet& packet, const net::address& source,
                            const net::address& destination) {
  const auto& header = packet.header;
  if (header.op != operation::send_only && header.op != operation::send_only_immediate) return;
  if (header.qkey != around_.agreed.qkey) return;  // 10.2.5: dropped silently
  if (failure_ || !need_receive(header)) return;
  const auto grh = global_route_header(packet, source, destination);
  receive_completion done{.request = receive_,
                          .solicited = header.solicited,
                          .bytes = static_cast<std::uint32_t>(packet.payload.size() + grh_bytes),
                          .has_immediate = has_immediate(header.op),
                          .immediate = header.immediate,
                          .has_grh = true,
                          .came_by_ipv4 = destination.is_ipv4(),
                          .source_qpn = header.source_qpn};
  done.result = receive_.capacity() < done.bytes ? status::local_length_error : scatter(grh, 0);
  if (done.result == status::success) done.result = scatter(packet.payload, grh_bytes);
  complete_receive(done);
}

}  // namespace softverbs::transport
