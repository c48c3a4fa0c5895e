#include <engine/sealed_memory.hpp>

#include <cerrno>

#include <engine/host_protocol.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace softverbs::engine::sealed_memory {
namespace {

// A system that allows no executable memfds sets this one by itself (vm.memfd_noexec).
constexpr int harmless_seal = 0x0020;  // F_SEAL_EXEC, which older headers do not have

}  // namespace

descriptor make(std::size_t bytes) {
  descriptor memfd(::memfd_create("softverbs", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd || ::ftruncate(memfd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(memfd.get(), F_ADD_SEALS, host_protocol::ring_seals) != 0) {
    return {};
  }
  return memfd;
}

std::byte* map(int memfd, std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  return memory != MAP_FAILED ? static_cast<std::byte*>(memory) : nullptr;
}

std::byte* map_foreign(int memfd, std::size_t bytes) {
  struct stat file{};
  if (::fstat(memfd, &file) != 0 || !S_ISREG(file.st_mode) ||
      file.st_size != static_cast<off_t>(bytes))
    return nullptr;
  const int seals = ::fcntl(memfd, F_GET_SEALS);  // -1 for everything that is no memfd
  if (seals < 0 || (seals & ~harmless_seal) != host_protocol::ring_seals) return nullptr;
  return map(memfd, bytes);
}

}  // namespace softverbs::engine::sealed_memory
