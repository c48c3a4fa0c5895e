// Whose object is it? What every exported function asks first.
#pragma once

#include <abi/libibverbs.hpp>
#include <abi/real.hpp>
#include <base/c_function.hpp>
#include <verbs/soft_verbs.hpp>

namespace softverbs::abi {

using verbs::is_soft;

/// Of a protection domain, queue, region, channel, address handle.
template <class Object>
  requires requires(const Object* object) { object->context->device; }
[[nodiscard]] bool is_soft(const Object* object) noexcept {
  return verbs::is_soft(object->context);
}

/// For functions that return a pointer.
[[nodiscard]] inline std::nullptr_t fails_with(int error) noexcept {
  errno = error;
  return nullptr;
}

}  // namespace softverbs::abi
