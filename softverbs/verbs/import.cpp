// Importing: a second user of a context, a protection domain or a memory region, in the process
// that made it. There is no kernel that could hold an object for two processes, so what is imported
// is the object itself, which stays until its last user has gone.
#include <cerrno>
#include <cstdint>

#include <base/descriptor.hpp>
#include <engine/memory_objects.hpp>
#include <engine/opened_contexts.hpp>
#include <verbs/objects.hpp>
#include <verbs/soft_verbs.hpp>

namespace softverbs::verbs {

ibv_context* import_device(int file) {
  auto* const found = engine::opened_contexts::of_process().import(file);
  if (found == nullptr) return failed<ibv_context>(EOPNOTSUPP);
  const descriptor spare(file);  // it belongs to the context now, which needs only one
  return found->as_ibv();
}

ibv_pd* import_pd(ibv_context* context, std::uint32_t handle) {
  auto& owner = context_of(context);
  if (const int refusal = owner.refuses("ibv_import_pd")) return failed<ibv_pd>(refusal);
  auto* const found = owner.domains.find(handle);
  if (found == nullptr) return failed<ibv_pd>(ENOENT);
  found->imports.add();
  return found;
}

void unimport_pd(ibv_pd* pd) {
  auto& domain = *static_cast<protection_domain*>(pd);
  if (!context_of(pd->context).is_alive()) return;
  if (domain.imports.remove()) delete &domain;
}

ibv_mr* import_mr(ibv_pd* pd, std::uint32_t handle) {
  auto& owner = context_of(pd->context);
  if (const int refusal = owner.refuses("ibv_import_mr")) return failed<ibv_mr>(refusal);
  engine::memory_region* found = nullptr;
  const bool known = owner.memory.with_region(
      handle, engine::domain_of(pd), [&](transport::memory_region& region) {
        found = static_cast<engine::memory_region*>(&region);
        found->imports.add();
      });
  return known ? found : failed<ibv_mr>(ENOENT);
}

void unimport_mr(ibv_mr* mr) {
  auto& region = *static_cast<engine::memory_region*>(mr);
  if (!context_of(mr->context).is_alive()) return;
  if (region.imports.remove()) delete &region;
}

}  // namespace softverbs::verbs
