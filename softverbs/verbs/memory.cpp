// Protection domains, memory regions and memory windows.
#include <memory>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include <engine/memory_objects.hpp>
#include <engine/queue_pair.hpp>
#include <sys/mman.h>
#include <unistd.h>
#include <verbs/objects.hpp>
#include <verbs/soft_verbs.hpp>

namespace softverbs::verbs {
namespace {

using engine::memory_region;
using engine::memory_window;

protection_domain& of(ibv_pd* pd) { return *static_cast<protection_domain*>(pd); }

constexpr unsigned remote_writing = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned known_access = IBV_ACCESS_LOCAL_WRITE | remote_writing | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB;

/// 0, or what the kernel gives for such flags.
int check_access(unsigned access) {
  if ((access & ~known_access) != 0) return EOPNOTSUPP;
  // 10.6.3.2: who lets a peer write must be allowed to write.
  if ((access & remote_writing) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return EINVAL;
  return 0;
}

/// Kernels before 5.14 cannot; there bad memory shows when it is used.
bool kernel_populates() {
  static const bool does = [] {
    const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const page = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool worked = ::madvise(page, bytes, MADV_POPULATE_READ) == 0;
    ::munmap(page, bytes);
    return worked;
  }();
  return does;
}

/// A device pins the pages; here they are made present, which fails where pinning would.
int check_memory(void* address, std::size_t bytes, unsigned access) {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  if (bytes == 0 || start + bytes < start) return EINVAL;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = start / page * page;
  const auto last = (start + bytes + page - 1) / page * page;
  const int advice =
      (access & IBV_ACCESS_LOCAL_WRITE) != 0 ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (::madvise(reinterpret_cast<void*>(first), last - first, advice) == 0) return 0;
  return kernel_populates() ? EFAULT : 0;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  auto& owner = context_of(pd->context);
  if (const int refusal = owner.refuses("ibv_alloc_mw")) return failed<ibv_mw>(refusal);
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return failed<ibv_mw>(EINVAL);
  auto window = std::make_unique<memory_window>();
  window->context = pd->context;
  window->pd = pd;
  window->type = type;
  window->domain = engine::domain_of(pd);
  window->is_type_2 = type == IBV_MW_TYPE_2;
  if (!owner.memory.add(*window)) return failed<ibv_mw>(ENOMEM);
  window->rkey = window->next_key;
  ++of(pd).users;
  ++owner.objects;
  return window.release();
}

int dealloc_mw(ibv_mw* mw) {
  auto& window = *static_cast<memory_window*>(mw);
  auto& owner = context_of(mw->context);
  if (!owner.is_alive()) return belongs_to_parent;
  owner.memory.remove(window);
  --of(mw->pd).users;
  --owner.objects;
  delete &window;
  return 0;
}

int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* wanted) {
  auto& pair = engine::queue_pair::of(qp);
  if (!pair.context.is_alive()) return belongs_to_parent;
  return pair.bind_window(*static_cast<memory_window*>(mw), *wanted);
}

}  // namespace

void set_memory_functions(verbs_context& verbs) {
  verbs.context.ops.alloc_mw = c_function<alloc_mw>;
  verbs.context.ops.dealloc_mw = c_function<dealloc_mw>;
  verbs.context.ops.bind_mw = c_function<bind_mw>;
}

ibv_pd* alloc_pd(ibv_context* context) {
  auto& owner = context_of(context);
  if (const int refusal = owner.refuses("ibv_alloc_pd")) return failed<ibv_pd>(refusal);
  auto pd = std::make_unique<protection_domain>();
  pd->context = context;
  owner.domains.add(*pd);
  ++owner.objects;
  return pd.release();
}

int dealloc_pd(ibv_pd* pd) {
  auto& owner = context_of(pd->context);
  if (!owner.is_alive()) return belongs_to_parent;
  auto& domain = of(pd);
  if (domain.users != 0) return EBUSY;
  if (domain.imports.is_destroyed()) return ENOENT;
  owner.domains.remove(domain);
  --owner.objects;
  if (domain.imports.object_is_destroyed()) delete &domain;
  return 0;
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova, unsigned access) {
  auto& owner = context_of(pd->context);
  if (const int refusal = owner.refuses("ibv_reg_mr")) return failed<ibv_mr>(refusal);
  if (const int failure = check_access(access)) return failed<ibv_mr>(failure);
  if (const int failure = check_memory(address, bytes, access)) return failed<ibv_mr>(failure);
  auto region = std::make_unique<memory_region>();
  region->context = pd->context;
  region->pd = pd;
  region->addr = address;
  region->length = bytes;
  region->start = static_cast<std::byte*>(address);
  region->size = bytes;
  region->iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  region->rights = access;
  region->domain = engine::domain_of(pd);
  if (!owner.memory.add(*region)) return failed<ibv_mr>(ENOMEM);
  region->lkey = region->rkey = region->handle = region->key;
  ++of(pd).users;
  ++owner.objects;
  return region.release();
}

int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes, int access) {
  auto& region = *static_cast<memory_region*>(mr);
  auto& owner = context_of(mr->context);
  constexpr int known =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  errno = EINVAL;
  if ((flags & ~known) != 0 || flags == 0) return IBV_REREG_MR_ERR_INPUT;
  if (access != 0 && (flags & IBV_REREG_MR_CHANGE_ACCESS) == 0) return IBV_REREG_MR_ERR_INPUT;
  if (const int refusal = owner.refuses("ibv_rereg_mr")) {
    errno = refusal;
    return IBV_REREG_MR_ERR_CMD;
  }
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const auto rights =
      (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0
          ? static_cast<unsigned>(access) & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE)
          : region.rights;
  if (moves && (bytes == 0 || address == nullptr)) return IBV_REREG_MR_ERR_INPUT;
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && (pd == nullptr || pd->context != mr->context))
    return IBV_REREG_MR_ERR_INPUT;
  int failure = check_access(rights);
  if (failure == 0)
    failure = check_memory(moves ? address : mr->addr, moves ? bytes : mr->length, rights);
  if (failure == 0) {
    const bool replaced = owner.memory.replace(region, [&] {
      if (moves) {
        region.addr = address;
        region.length = bytes;
        region.start = static_cast<std::byte*>(address);
        region.size = bytes;
        region.iova =
            (rights & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : reinterpret_cast<std::uintptr_t>(address);
      }
      if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
        --of(region.pd).users;
        region.pd = pd;
        region.domain = engine::domain_of(pd);
        ++of(pd).users;
      }
      region.rights = rights;
    });
    if (!replaced) failure = EBUSY;
  }
  if (failure == 0) return 0;
  errno = failure;
  return IBV_REREG_MR_ERR_CMD;  // the old registration still holds
}

int dereg_mr(ibv_mr* mr) {
  auto& region = *static_cast<memory_region*>(mr);
  auto& owner = context_of(mr->context);
  if (!owner.is_alive()) return belongs_to_parent;
  if (region.imports.is_destroyed()) return ENOENT;
  if (!owner.memory.remove(region)) return EBUSY;
  --of(mr->pd).users;
  --owner.objects;
  if (region.imports.object_is_destroyed()) delete &region;
  return 0;
}

}  // namespace softverbs::verbs
