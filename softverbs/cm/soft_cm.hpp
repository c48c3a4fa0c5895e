// The functions of librdmacm for soft devices: what the exported ones (abi/) do once it is settled
// that this process uses the soft connection manager. Each has the signature and the error
// convention of the function it stands for: -1 or null with errno.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rdma/rdma_cma.h>

namespace softverbs::cm {

rdma_event_channel* create_event_channel();
void destroy_event_channel(rdma_event_channel* channel);
int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space);
int create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd, ibv_qp_init_attr* attributes);
void destroy_ep(rdma_cm_id* id);
int destroy_id(rdma_cm_id* id);
int migrate_id(rdma_cm_id* id, rdma_event_channel* channel);

int bind_addr(rdma_cm_id* id, sockaddr* address);
int resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination);
int resolve_route(rdma_cm_id* id);
int set_option(rdma_cm_id* id, int level, int option, const void* value, std::size_t bytes);
__be16 src_port(rdma_cm_id* id);
__be16 dst_port(rdma_cm_id* id);

int create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes);
int create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attributes);
void destroy_qp(rdma_cm_id* id);
int init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask);
int create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attributes);
int create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attributes);
void destroy_srq(rdma_cm_id* id);

int connect(rdma_cm_id* id, rdma_conn_param* terms);
int establish(rdma_cm_id* id);
int listen(rdma_cm_id* id, int backlog);
int get_request(rdma_cm_id* listener, rdma_cm_id** id);
int accept(rdma_cm_id* id, rdma_conn_param* terms);
int reject(rdma_cm_id* id, const void* private_data, std::uint8_t bytes);
int reject_ece(rdma_cm_id* id, const void* private_data, std::uint8_t bytes);
int set_local_ece(rdma_cm_id* id, ibv_ece* ece);
int get_remote_ece(rdma_cm_id* id, ibv_ece* ece);
int notify(rdma_cm_id* id, ibv_event_type event);
int disconnect(rdma_cm_id* id);
int join_multicast(rdma_cm_id* id, sockaddr* address, void* context);
int leave_multicast(rdma_cm_id* id, sockaddr* address);

int get_cm_event(rdma_event_channel* channel, rdma_cm_event** event);
int ack_cm_event(rdma_cm_event* event);

ibv_context** get_devices(int* count);
void free_devices(ibv_context** list);

int getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                rdma_addrinfo** found);
void freeaddrinfo(rdma_addrinfo* list);

}  // namespace softverbs::cm
