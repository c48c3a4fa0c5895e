// What librdmacm and the providers of the real libibverbs use among themselves. No soft object
// comes by here, and they are not there without the real library.

#include <abi/dispatch.hpp>

void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, ib_uverbs_ah_attr* from) {
  RDMAXX_REAL(ibv_copy_ah_attr_from_kern)(to, from);
}

void ibv_copy_qp_attr_from_kern(ibv_qp_attr* to, ib_uverbs_qp_attr* from) {
  RDMAXX_REAL(ibv_copy_qp_attr_from_kern)(to, from);
}

void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* to, ib_user_path_rec* from) {
  RDMAXX_REAL(ibv_copy_path_rec_from_kern)(to, from);
}

void ibv_copy_path_rec_to_kern(ib_user_path_rec* to, ibv_sa_path_rec* from) {
  RDMAXX_REAL(ibv_copy_path_rec_to_kern)(to, from);
}

// A relic that the real library keeps for binaries alone: it has no default version.
void ibv_register_driver(const char* name, void* init) {
  auto* const real = softverbs::abi::find_real("ibv_register_driver", "IBVERBS_1.1");
  if (real != nullptr) reinterpret_cast<decltype(&::ibv_register_driver)>(real)(name, init);
}
