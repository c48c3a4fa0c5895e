#include <wire/crc32.hpp>

#include <array>
#include <atomic>

#include <wire/crc32_implementations.hpp>

namespace softverbs::wire {
namespace {

// The fastest last, and whoever can run one can run all before it.
constexpr std::array known{
    crc32_variant{.name = "tables", .update = crc32_tables},
#if defined(__x86_64__)
    crc32_variant{.name = "pclmul", .update = crc32_pclmul},
    crc32_variant{.name = "vpclmul", .update = crc32_vpclmul},
#endif
};

std::uint32_t choose_and_update(std::uint32_t state, std::span<const std::byte> data) noexcept;

// Threads that choose at the same time choose the same.
constinit std::atomic chosen = &choose_and_update;

std::uint32_t choose_and_update(std::uint32_t state, std::span<const std::byte> data) noexcept {
  const auto best = crc32_variants().back().update;
  chosen.store(best, std::memory_order_relaxed);
  return best(state, data);
}

}  // namespace

std::span<const crc32_variant> crc32_variants() noexcept {
  std::size_t usable = 1;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) {
    ++usable;
    if (__builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2")) ++usable;
  }
#endif
  return std::span(known).first(usable);
}

std::uint32_t crc32_update(std::uint32_t state, std::span<const std::byte> data) noexcept {
  return chosen.load(std::memory_order_relaxed)(state, data);
}

}  // namespace softverbs::wire
