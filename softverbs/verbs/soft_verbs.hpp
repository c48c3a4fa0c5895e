// The verbs of soft devices: what the exported C functions (abi/) do once they know that an object
// is one of ours. Each has the signature and the error convention of the libibverbs function it
// stands for: pointers with errno, or an errno value returned.
//
// The inline verbs of <infiniband/verbs.h> (post_send, poll_cq, create_cq_ex, wr_* …) reach soft
// devices through the function pointers in the context and its objects, and are not listed here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <infiniband/verbs.h>
#include <net/netdev.hpp>

namespace softverbs::verbs {

/// Of an object that a user handed to an exported function.
[[nodiscard]] bool is_soft(const ibv_context* context) noexcept;

/// The devices of this process: one for each usable netdev, made anew when the netdevs have
/// changed, and never freed (programs keep the pointers).
[[nodiscard]] std::vector<ibv_device*> list_devices();
[[nodiscard]] bool is_soft(const ibv_device* device) noexcept;
[[nodiscard]] __be64 device_guid(ibv_device* device);
[[nodiscard]] int device_index(ibv_device* device);

/// A device as it is at the moment, for those who write of it.
struct present_device {
  std::string name;
  std::string dev_name;
  std::uint64_t guid = 0;  ///< in the order of the host
  net::netdev netdev;
};
[[nodiscard]] std::vector<present_device> present_devices();

[[nodiscard]] ibv_context* open_device(ibv_device* device);
int close_device(ibv_context* context);
int get_async_event(ibv_context* context, ibv_async_event* event);
void ack_async_event(ibv_async_event* event);

int query_device(ibv_context* context, ibv_device_attr* attributes);
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes);
int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid);
int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                 ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_bytes);
ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most,
                        std::uint32_t flags, std::size_t entry_bytes);
int query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey);

/// The file is a duplicate of the cmd_fd of a context of this process, else it fails with
/// EOPNOTSUPP.
[[nodiscard]] ibv_context* import_device(int file);
[[nodiscard]] ibv_pd* import_pd(ibv_context* context, std::uint32_t handle);
void unimport_pd(ibv_pd* pd);
[[nodiscard]] ibv_mr* import_mr(ibv_pd* pd, std::uint32_t handle);
void unimport_mr(ibv_mr* mr);

ibv_pd* alloc_pd(ibv_context* context);
int dealloc_pd(ibv_pd* pd);
ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova, unsigned access);
int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes, int access);
int dereg_mr(ibv_mr* mr);

ibv_comp_channel* create_comp_channel(ibv_context* context);
int destroy_comp_channel(ibv_comp_channel* channel);
ibv_cq* create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel,
                  int vector);
int resize_cq(ibv_cq* cq, int entries);
int destroy_cq(ibv_cq* cq);
int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
void ack_cq_events(ibv_cq* cq, unsigned count);

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes);
int modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask);
int query_srq(ibv_srq* srq, ibv_srq_attr* attributes);
int destroy_srq(ibv_srq* srq);

/// The same wishes for the extended functions, without a protection domain.
[[nodiscard]] ibv_qp_init_attr_ex extended(const ibv_qp_init_attr& attributes);
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes);
int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init);
int destroy_qp(ibv_qp* qp);
ibv_qp_ex* to_qp_ex(ibv_qp* qp);

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes);
int destroy_ah(ibv_ah* ah);
/// The GID index through which the packet came is found by its destination address.
int init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* completion, ibv_grh* grh,
                    ibv_ah_attr* attributes);
int attach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid);
int detach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid);

}  // namespace softverbs::verbs
