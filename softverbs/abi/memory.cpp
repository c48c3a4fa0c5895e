// Protection domains and memory regions.

#include <abi/dispatch.hpp>

using namespace softverbs;
using namespace softverbs::abi;

namespace {

/// What a device may ignore, soft devices do.
constexpr unsigned required(unsigned access) {
  return access & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);
}

}  // namespace

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return is_soft(context) ? c_function<verbs::alloc_pd>(context)
                          : RDMAXX_REAL(ibv_alloc_pd)(context);
}

int ibv_dealloc_pd(ibv_pd* pd) {
  return is_soft(pd) ? c_function<verbs::dealloc_pd>(pd) : RDMAXX_REAL(ibv_dealloc_pd)(pd);
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) {
  if (!is_soft(pd)) return RDMAXX_REAL(ibv_reg_mr)(pd, address, bytes, access);
  return c_function<verbs::reg_mr>(pd, address, bytes, reinterpret_cast<std::uintptr_t>(address),
                                   required(static_cast<unsigned>(access)));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                        int access) {
  if (!is_soft(pd)) return RDMAXX_REAL(ibv_reg_mr_iova)(pd, address, bytes, iova, access);
  return c_function<verbs::reg_mr>(pd, address, bytes, iova,
                                   required(static_cast<unsigned>(access)));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                         unsigned access) {
  if (!is_soft(pd)) return RDMAXX_REAL(ibv_reg_mr_iova2)(pd, address, bytes, iova, access);
  return c_function<verbs::reg_mr>(pd, address, bytes, iova, required(access));
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t bytes, std::uint64_t iova,
                          int file, int access) {
  if (is_soft(pd)) return fails_with(EOPNOTSUPP);
  return RDMAXX_REAL(ibv_reg_dmabuf_mr)(pd, offset, bytes, iova, file, access);
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes, int access) {
  if (!is_soft(mr)) return RDMAXX_REAL(ibv_rereg_mr)(mr, flags, pd, address, bytes, access);
  const auto kept = static_cast<int>(required(static_cast<unsigned>(access)));
  return c_function<verbs::rereg_mr, failure_as::minus_one>(mr, flags, pd, address, bytes, kept);
}

int ibv_dereg_mr(ibv_mr* mr) {
  return is_soft(mr) ? c_function<verbs::dereg_mr>(mr) : RDMAXX_REAL(ibv_dereg_mr)(mr);
}
