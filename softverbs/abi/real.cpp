#include <abi/real.hpp>

#include <string_view>

#include <dlfcn.h>

namespace softverbs::abi {

namespace {

void* look_in(void* where, const char* name, const char* version) {
  return version == nullptr ? ::dlsym(where, name) : ::dlvsym(where, name, version);
}

/// For a program that does not link it. Never closed: its functions are in use to the end.
void* loaded(std::atomic<void*>& library, const char* file) {
  auto* known = library.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = ::dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    library.store(known, std::memory_order_release);
  }
  return known;
}

void* library_of(std::string_view name) {
  static std::atomic<void*> libibverbs{nullptr};
  static std::atomic<void*> librdmacm{nullptr};
  return name.starts_with("rdma_") || name == "rsocket" ? loaded(librdmacm, "librdmacm.so.1")
                                                        : loaded(libibverbs, "libibverbs.so.1");
}

}  // namespace

void* find_real(const char* name, const char* version) noexcept {
  if (auto* const next = look_in(RTLD_NEXT, name, version); next != nullptr) return next;
  auto* const library = library_of(name);
  return library == nullptr ? nullptr : look_in(library, name, version);
}

}  // namespace softverbs::abi
