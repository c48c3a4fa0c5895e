// The functions that libibverbs exports, as functions: without the macros of <infiniband/verbs.h>
// that stand before some of them, and with those that it exports for its own family alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include <infiniband/verbs.h>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;
struct ib_user_path_rec;
struct ibv_sa_path_rec;

extern "C" {

// For librdmacm and providers.
const char* ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char* folder, const char* file, char* buffer, std::size_t bytes);
/// `type` becomes 0 for RoCE v1 and InfiniBand, 1 for RoCE v2.
int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, int* type);
int ibv_dontfork_range(void* base, std::size_t bytes);
int ibv_dofork_range(void* base, std::size_t bytes);
void ibv_register_driver(const char* name, void* init);

// Between the kernel's structs and those of verbs.
void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, ib_uverbs_ah_attr* from);
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* to, ib_uverbs_qp_attr* from);
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* to, ib_user_path_rec* from);
void ibv_copy_path_rec_to_kern(ib_user_path_rec* to, ibv_sa_path_rec* from);

}  // extern "C"
