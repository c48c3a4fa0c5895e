// libFuzzer target: what decode_cm() accepts survives encode() and decode_cm() unchanged.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include <wire/cm_message.hpp>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softverbs::wire;
  const auto first = decode_cm(std::as_bytes(std::span(data, size)));
  if (!first) return 0;
  const auto second = decode_cm(encode(*first));
  if (!second || *second != *first) std::abort();
  if (private_bytes(first->kind) > first->private_data.size()) std::abort();
  return 0;
}
