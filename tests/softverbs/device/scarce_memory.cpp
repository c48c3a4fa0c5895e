#include "scarce_memory.hpp"

#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t plenty = SIZE_MAX;
thread_local std::size_t allocations_left = plenty;
thread_local bool felt = false;

}  // namespace

// NOLINTBEGIN(cppcoreguidelines-no-malloc): this is what operator new is made of
void* operator new(std::size_t bytes) {
  if (allocations_left != plenty && allocations_left-- == 0) {
    allocations_left = plenty;
    felt = true;
    throw std::bad_alloc();
  }
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
// NOLINTEND(cppcoreguidelines-no-malloc)

namespace softverbs::device_tests {

scarce_memory::scarce_memory(std::size_t spared) noexcept {
  felt = false;
  allocations_left = spared;
}

scarce_memory::~scarce_memory() { allocations_left = plenty; }

bool scarce_memory::was_felt() const noexcept { return felt; }

}  // namespace softverbs::device_tests
