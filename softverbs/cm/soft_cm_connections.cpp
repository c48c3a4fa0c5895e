// The functions of librdmacm that make, refuse and end connections.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <cm/api_call.hpp>
#include <cm/cm_id.hpp>
#include <cm/local_device.hpp>
#include <cm/soft_cm.hpp>
#include <engine/fault_plan.hpp>

namespace softverbs::cm {
namespace {

bool terms_are_possible(const cm_id& who, const rdma_conn_param* terms) {
  if (who.is_datagram() || who.address.device() == nullptr) return true;
  if (terms == nullptr) return who.qp != nullptr;
  const auto& limits = who.address.device()->attributes;
  return (terms->responder_resources == RDMA_MAX_RESP_RES ||
          terms->responder_resources <= limits.max_qp_rd_atom) &&
         (terms->initiator_depth == RDMA_MAX_INIT_DEPTH ||
          terms->initiator_depth <= limits.max_qp_init_rd_atom);
}

int reject_because(rdma_cm_id* id, const void* private_data, std::size_t bytes,
                   wire::reject_reason reason) {
  return with(id, [&](cm_id& who) {
    return who.reject({static_cast<const std::byte*>(private_data), bytes}, reason);
  });
}

/// RDMA_MAX_… stand for what the device can.
rdma_conn_param bounded(const cm_id& who, rdma_conn_param terms) {
  const auto& limits = who.address.device()->attributes;
  if (terms.responder_resources == RDMA_MAX_RESP_RES)
    terms.responder_resources = static_cast<std::uint8_t>(limits.max_qp_rd_atom);
  if (terms.initiator_depth == RDMA_MAX_INIT_DEPTH)
    terms.initiator_depth = static_cast<std::uint8_t>(limits.max_qp_init_rd_atom);
  return terms;
}

}  // namespace

int listen(rdma_cm_id* id, int backlog) {
  if (const int wanted = engine::injected_failure("rdma_listen")) return result(wanted);
  return with(id, [&](cm_id& who) { return who.requests.listen(backlog); });
}

int connect(rdma_cm_id* id, rdma_conn_param* terms) {
  if (const int wanted = engine::injected_failure("rdma_connect")) return result(wanted);
  return begin_and_complete(id, [&](cm_id& who) {
    if (!terms_are_possible(who, terms)) return EINVAL;
    if (terms == nullptr || who.address.device() == nullptr) return who.connect(terms);
    const auto wanted = bounded(who, *terms);
    return who.connect(&wanted);
  });
}

int establish(rdma_cm_id* id) {
  return with(id, [](cm_id& who) { return who.qp != nullptr ? EINVAL : who.establish(); });
}

int accept(rdma_cm_id* id, rdma_conn_param* terms) {
  if (const int wanted = engine::injected_failure("rdma_accept")) return result(wanted);
  const auto begin = [&](cm_id& who) {
    if (!terms_are_possible(who, terms)) return EINVAL;
    if (terms == nullptr || who.address.device() == nullptr) return who.accept(terms);
    auto wanted = *terms;
    const auto& limits = who.address.device()->attributes;
    // RDMA_MAX_… stand for what the peer asked for, as far as the device can.
    if (wanted.responder_resources == RDMA_MAX_RESP_RES)
      wanted.responder_resources = std::min(who.terms().responder_resources,
                                            static_cast<std::uint8_t>(limits.max_qp_rd_atom));
    if (wanted.initiator_depth == RDMA_MAX_INIT_DEPTH)
      wanted.initiator_depth = std::min(who.terms().initiator_depth,
                                        static_cast<std::uint8_t>(limits.max_qp_init_rd_atom));
    return who.accept(&wanted);
  };
  if (with(id, begin) != 0) return -1;
  return cm_id::of(id).is_datagram() ? 0 : complete(id);
}

int reject(rdma_cm_id* id, const void* private_data, std::uint8_t bytes) {
  return reject_because(id, private_data, bytes, wire::reject_reason::consumer);
}

int reject_ece(rdma_cm_id* id, const void* private_data, std::uint8_t bytes) {
  return reject_because(id, private_data, bytes, wire::reject_reason::vendor_options);
}

int set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (ece == nullptr || ece->vendor_id == 0 || ece->comp_mask != 0) return result(EINVAL);
  return with(id, [&](cm_id& who) {
    who.local_ece = *ece;
    return 0;
  });
}

int get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  return with(id, [&](cm_id& who) {
    *ece = who.remote_ece;
    return 0;
  });
}

int notify(rdma_cm_id* id, ibv_event_type event) {
  return with(id, [&](cm_id& who) {
    if (event == IBV_EVENT_PATH_MIG) return 0;  // paths do not migrate here
    return event == IBV_EVENT_COMM_EST ? who.data_arrived() : EINVAL;
  });
}

int disconnect(rdma_cm_id* id) {
  if (const int wanted = engine::injected_failure("rdma_disconnect")) return result(wanted);
  return begin_and_complete(id, [](cm_id& who) { return who.disconnect(); });
}

}  // namespace softverbs::cm
