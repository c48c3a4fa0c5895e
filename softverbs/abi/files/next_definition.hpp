// The definition of a C library's function that comes after ours: what is called for every path
// that is none of ours.
//
// They are looked up when the library is loaded, so that functions which may be called from signal
// handlers and between fork and exec stay so. A call that comes before that, from the constructor
// of another library, looks its own one up.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <type_traits>

#include <dlfcn.h>

namespace softverbs::abi::file_access {

template <std::size_t N>
struct symbol_name {
  std::array<char, N> text{};
  // NOLINTNEXTLINE(google-explicit-constructor): a template argument is written as a literal
  consteval symbol_name(const char (&literal)[N]) { std::copy_n(&literal[0], N, text.begin()); }
};

template <symbol_name name, class Signature>
class next_definition {
 public:
  /// Null if there is none.
  [[nodiscard]] static Signature* get() noexcept {
    auto* known = known_.load(std::memory_order_acquire);
    if (known == nullptr) [[unlikely]] {
      const int error = errno;
      // Two threads may both look for it, and find the same.
      known = reinterpret_cast<Signature*>(::dlsym(RTLD_NEXT, name.text.data()));
      known_.store(known, std::memory_order_release);
      errno = error;
    }
    return known;
  }

  template <class... Arguments>
  static auto call(Arguments... arguments) {
    using result = std::invoke_result_t<Signature*, Arguments...>;
    if (auto* const function = get(); function != nullptr) [[likely]]
      return function(arguments...);
    errno = ENOSYS;
    if constexpr (std::is_pointer_v<result>) {
      return static_cast<result>(nullptr);
    } else if constexpr (!std::is_void_v<result>) {
      return static_cast<result>(-1);
    }
  }

 private:
  static constinit inline std::atomic<Signature*> known_{nullptr};
};

}  // namespace softverbs::abi::file_access
