// Contexts, domains and regions that are used a second time.

#include <abi/device_list.hpp>
#include <abi/dispatch.hpp>

using namespace softverbs;
using namespace softverbs::abi;

ibv_context* ibv_import_device(int file) {
  if (auto* const own = c_function<verbs::import_device>(file)) return own;
  return without_exceptions([&]() -> ibv_context* {
    if (real_device_list().size() == 0) return fails_with(EOPNOTSUPP);
    const real_devices_only guard;
    return RDMAXX_REAL(ibv_import_device)(file);
  });
}

ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  return is_soft(context) ? c_function<verbs::import_pd>(context, handle)
                          : RDMAXX_REAL(ibv_import_pd)(context, handle);
}

void ibv_unimport_pd(ibv_pd* pd) {
  is_soft(pd) ? c_function<verbs::unimport_pd>(pd) : RDMAXX_REAL(ibv_unimport_pd)(pd);
}

ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  return is_soft(pd) ? c_function<verbs::import_mr>(pd, handle)
                     : RDMAXX_REAL(ibv_import_mr)(pd, handle);
}

void ibv_unimport_mr(ibv_mr* mr) {
  is_soft(mr) ? c_function<verbs::unimport_mr>(mr) : RDMAXX_REAL(ibv_unimport_mr)(mr);
}

// Soft devices have no memory of their own.
ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  if (is_soft(context)) return fails_with(EOPNOTSUPP);
  return RDMAXX_REAL(ibv_import_dm)(context, handle);
}

void ibv_unimport_dm(ibv_dm* memory) {
  if (!is_soft(memory)) RDMAXX_REAL(ibv_unimport_dm)(memory);
}
