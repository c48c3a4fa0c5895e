#include "connected_pair.hpp"

#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace softverbs::device_tests {

namespace {

void check(int failure, const char* what) {
  if (failure != 0) throw std::system_error(failure, std::generic_category(), what);
}

owned<ibv_qp> make_qp(ibv_context* context, const side& parts, const pair_options& options) {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq =
      options.all_completions != nullptr ? options.all_completions : parts.send_cq.get();
  wanted.recv_cq =
      options.all_completions != nullptr ? options.all_completions : parts.recv_cq.get();
  wanted.srq = parts.srq.get();
  wanted.cap = options.capacities;
  wanted.qp_type = options.type;
  wanted.sq_sig_all = options.signal_all ? 1 : 0;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = options.same_domain != nullptr ? options.same_domain : parts.pd.get();
  if (options.send_ops != 0) {
    wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.send_ops_flags = options.send_ops;
    return own(ibv_create_qp_ex(context, &wanted));
  }
  ibv_qp_init_attr plain{};
  plain.send_cq = wanted.send_cq;
  plain.recv_cq = wanted.recv_cq;
  plain.srq = wanted.srq;
  plain.cap = wanted.cap;
  plain.qp_type = wanted.qp_type;
  plain.sq_sig_all = wanted.sq_sig_all;
  return own(ibv_create_qp(wanted.pd, &plain));
}

}  // namespace

owned<ibv_context> open_device() {
  int count = 0;
  auto** const list = ibv_get_device_list(&count);
  if (list == nullptr) throw std::runtime_error("there is no list of devices");
  ibv_context* opened = nullptr;
  for (int i = 0; i < count; ++i) {
    if (std::string_view(ibv_get_device_name(list[i])) == "soft0")
      opened = ibv_open_device(list[i]);
  }
  ibv_free_device_list(list);
  if (opened == nullptr) throw std::runtime_error("soft0 cannot be opened");
  return owned<ibv_context>(opened);
}

ibv_gid gid_of(ibv_context* context, int index) {
  ibv_gid gid{};
  if (ibv_query_gid(context, 1, index, &gid) != 0) throw std::runtime_error("there is no such GID");
  return gid;
}

side::side(ibv_context* context, const pair_options& options)
    : pd(own(ibv_alloc_pd(context))),
      channel(options.with_channel ? own(ibv_create_comp_channel(context))
                                   : owned<ibv_comp_channel>()),
      send_cq(own(ibv_create_cq(context, options.cq_entries, nullptr, channel.get(), 0))),
      recv_cq(own(ibv_create_cq(context, options.cq_entries, nullptr, channel.get(), 0))) {
  if (options.srq_requests != 0) {
    ibv_srq_init_attr wanted{
        .srq_context = nullptr,
        .attr = {.max_wr = options.srq_requests, .max_sge = 4, .srq_limit = 0}};
    srq = own(ibv_create_srq(pd.get(), &wanted));
  }
  qp = make_qp(context, *this, options);
}

modification to_init(ibv_qp_type type, const pair_options& options) {
  modification made{.attributes = {},
                    .mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                            (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)};
  made.attributes.qp_state = IBV_QPS_INIT;
  made.attributes.port_num = 1;
  made.attributes.qkey = queue_key;
  made.attributes.qp_access_flags = options.access;
  return made;
}

modification to_rtr(ibv_context* context, ibv_qp_type type, std::uint32_t peer,
                    const pair_options& options) {
  modification made{.attributes = {}, .mask = IBV_QP_STATE};
  auto& wanted = made.attributes;
  wanted.qp_state = IBV_QPS_RTR;
  if (type == IBV_QPT_UD) return made;
  made.mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  wanted.ah_attr.is_global = 1;
  wanted.ah_attr.port_num = 1;
  wanted.ah_attr.grh.dgid = gid_of(context, options.gid_index);
  wanted.ah_attr.grh.sgid_index = options.gid_index;
  wanted.ah_attr.grh.hop_limit = 64;
  wanted.path_mtu = options.mtu;
  wanted.dest_qp_num = peer;
  wanted.rq_psn = options.first_psn;
  if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV) {
    made.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    wanted.max_dest_rd_atomic = options.max_dest_rd_atomic;
    wanted.min_rnr_timer = options.min_rnr_timer;
  }
  return made;
}

modification to_rts(ibv_qp_type type, const pair_options& options) {
  modification made{.attributes = {}, .mask = IBV_QP_STATE | IBV_QP_SQ_PSN};
  auto& wanted = made.attributes;
  wanted.qp_state = IBV_QPS_RTS;
  wanted.sq_psn = options.first_psn;
  wanted.timeout = options.timeout;
  wanted.retry_cnt = options.retry_cnt;
  wanted.rnr_retry = options.rnr_retry;
  wanted.max_rd_atomic = options.max_rd_atomic;
  if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND) {
    made.mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  } else if (type == IBV_QPT_XRC_RECV) {
    made.mask |= IBV_QP_TIMEOUT;
  }
  return made;
}

modification to_state(ibv_qp_state state) {
  modification made{.attributes = {}, .mask = IBV_QP_STATE};
  made.attributes.qp_state = state;
  return made;
}

void connect(ibv_qp* qp, std::uint32_t peer, const pair_options& options) {
  check(to_init(qp->qp_type, options).apply(qp), "to INIT");
  check(to_rtr(qp->context, qp->qp_type, peer, options).apply(qp), "to RTR");
  check(to_rts(qp->qp_type, options).apply(qp), "to RTS");
}

ibv_qp_attr attributes_of(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  check(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &init), "ibv_query_qp");
  return attributes;
}

ibv_qp_state state_of(ibv_qp* qp) { return attributes_of(qp).qp_state; }

owned<ibv_ah> address_of_neighbour(ibv_pd* pd, std::uint8_t gid_index) {
  ibv_ah_attr wanted{};
  wanted.is_global = 1;
  wanted.port_num = 1;
  wanted.grh.dgid = gid_of(pd->context, gid_index);
  wanted.grh.sgid_index = gid_index;
  return own(ibv_create_ah(pd, &wanted));
}

connected_pair::connected_pair(ibv_context* existing, const pair_options& options)
    : context(existing), a(existing, options), b(existing, options) {
  connect(a.qp.get(), b.qp->qp_num, options);
  connect(b.qp.get(), a.qp->qp_num, options);
}

connected_pair::connected_pair(const pair_options& options)
    : own_context(open_device()),
      context(own_context.get()),
      a(context, options),
      b(context, options) {
  connect(a.qp.get(), b.qp->qp_num, options);
  connect(b.qp.get(), a.qp->qp_num, options);
}

}  // namespace softverbs::device_tests
