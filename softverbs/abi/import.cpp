// Objects of another process: soft devices have none to share.

#include <abi/dispatch.hpp>

using namespace softverbs;
using namespace softverbs::abi;

ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  if (is_soft(context)) return fails_with(EOPNOTSUPP);
  return RDMAXX_REAL(ibv_import_pd)(context, handle);
}

void ibv_unimport_pd(ibv_pd* pd) {
  if (!is_soft(pd)) RDMAXX_REAL(ibv_unimport_pd)(pd);
}

ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  if (is_soft(pd)) return fails_with(EOPNOTSUPP);
  return RDMAXX_REAL(ibv_import_mr)(pd, handle);
}

void ibv_unimport_mr(ibv_mr* mr) {
  if (!is_soft(mr)) RDMAXX_REAL(ibv_unimport_mr)(mr);
}

ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  if (is_soft(context)) return fails_with(EOPNOTSUPP);
  return RDMAXX_REAL(ibv_import_dm)(context, handle);
}

void ibv_unimport_dm(ibv_dm* memory) {
  if (!is_soft(memory)) RDMAXX_REAL(ibv_unimport_dm)(memory);
}
