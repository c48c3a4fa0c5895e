// Memory that processes share: a memfd whose size nobody can change any more. Any other kind of
// file could be truncated by another process, and touching it would then kill this one.
#pragma once

#include <cstddef>

#include <base/descriptor.hpp>

namespace softverbs::engine::sealed_memory {

/// A new memfd, full of zeros; negative with errno.
[[nodiscard]] descriptor make(std::size_t bytes);
/// Maps a memfd that this process has made; null with errno.
[[nodiscard]] std::byte* map(int memfd, std::size_t bytes);
/// Maps what another process has sent: null, unless it is a memfd of exactly that size and with
/// exactly the seals of host_protocol.hpp.
[[nodiscard]] std::byte* map_foreign(int memfd, std::size_t bytes);

}  // namespace softverbs::engine::sealed_memory
