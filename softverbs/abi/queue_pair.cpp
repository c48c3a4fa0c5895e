// Queue pairs and shared receive queues.

#include <abi/dispatch.hpp>

using namespace softverbs;
using namespace softverbs::abi;

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  return is_soft(pd) ? c_function<verbs::create_srq>(pd, attributes)
                     : RDMAXX_REAL(ibv_create_srq)(pd, attributes);
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  return is_soft(srq) ? c_function<verbs::modify_srq>(srq, attributes, mask)
                      : RDMAXX_REAL(ibv_modify_srq)(srq, attributes, mask);
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attributes) {
  return is_soft(srq) ? c_function<verbs::query_srq>(srq, attributes)
                      : RDMAXX_REAL(ibv_query_srq)(srq, attributes);
}

int ibv_destroy_srq(ibv_srq* srq) {
  return is_soft(srq) ? c_function<verbs::destroy_srq>(srq) : RDMAXX_REAL(ibv_destroy_srq)(srq);
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return is_soft(pd) ? c_function<verbs::create_qp>(pd, attributes)
                     : RDMAXX_REAL(ibv_create_qp)(pd, attributes);
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  return is_soft(qp) ? c_function<verbs::to_qp_ex>(qp) : RDMAXX_REAL(ibv_qp_to_qp_ex)(qp);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  return is_soft(qp) ? c_function<verbs::modify_qp>(qp, attributes, mask)
                     : RDMAXX_REAL(ibv_modify_qp)(qp, attributes, mask);
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init) {
  return is_soft(qp) ? c_function<verbs::query_qp>(qp, attributes, mask, init)
                     : RDMAXX_REAL(ibv_query_qp)(qp, attributes, mask, init);
}

int ibv_destroy_qp(ibv_qp* qp) {
  return is_soft(qp) ? c_function<verbs::destroy_qp>(qp) : RDMAXX_REAL(ibv_destroy_qp)(qp);
}

// Soft devices promise nothing beyond the specification.
int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode operation, std::uint32_t flags) {
  return is_soft(qp) ? 0 : RDMAXX_REAL(ibv_query_qp_data_in_order)(qp, operation, flags);
}

// Enhanced connection establishment is how devices of one vendor agree on options; soft ones have
// none.
int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  if (!is_soft(qp)) return RDMAXX_REAL(ibv_query_ece)(qp, ece);
  *ece = {};
  return 0;
}

int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (!is_soft(qp)) return RDMAXX_REAL(ibv_set_ece)(qp, ece);
  return ece->vendor_id == 0 && ece->options == 0 ? 0 : EOPNOTSUPP;
}

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid) {
  return is_soft(qp) ? c_function<verbs::attach_mcast>(qp, group, lid)
                     : RDMAXX_REAL(ibv_attach_mcast)(qp, group, lid);
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid) {
  return is_soft(qp) ? c_function<verbs::detach_mcast>(qp, group, lid)
                     : RDMAXX_REAL(ibv_detach_mcast)(qp, group, lid);
}
