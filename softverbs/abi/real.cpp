#include <abi/real.hpp>

#include <dlfcn.h>

namespace softverbs::abi {

namespace {

void* look_in(void* where, const char* name, const char* version) {
  return version == nullptr ? ::dlsym(where, name) : ::dlvsym(where, name, version);
}

/// For a program that does not link it. Never closed: its functions are in use to the end.
void* loaded_libibverbs() {
  static std::atomic<void*> library{nullptr};
  auto* known = library.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
    library.store(known, std::memory_order_release);
  }
  return known;
}

}  // namespace

void* find_real(const char* name, const char* version) noexcept {
  if (auto* const next = look_in(RTLD_NEXT, name, version); next != nullptr) return next;
  auto* const library = loaded_libibverbs();
  return library == nullptr ? nullptr : look_in(library, name, version);
}

}  // namespace softverbs::abi
