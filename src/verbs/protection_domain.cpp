#include <rdmaxx/verbs/protection_domain.hpp>

#include <cerrno>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdmaxx/core/check.hpp>

#include "context_block.hpp"
#include "memory_region_block.hpp"
#include "pd_block.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

access_flags with_local_write(access_flags access) {
  return access.has_any(access::remote_write | access::remote_atomic) ? access | access::local_write
                                                                      : access;
}

error registration_failed(int errno_value, std::span<const std::byte> buffer, access_flags access,
                          const device_attributes& limits) {
  const auto what =
      fmt::format("{} bytes at {} for {}", buffer.size(),
                  fmt::ptr(static_cast<const void*>(buffer.data())), describe(access));
  std::string hint;
  if (limits.max_mr_bytes != 0 && buffer.size() > limits.max_mr_bytes) {
    hint = fmt::format("the device registers at most {} bytes at once", limits.max_mr_bytes);
  } else if (buffer.empty()) {
    hint = "register at least one byte";
  } else if (errno_value == EFAULT) {
    hint = "the memory is not mapped, or is mapped read-only: use register_readonly() for that";
  } else if (errno_value == ENOMEM) {
    hint = "registered memory is locked: raise `ulimit -l`, or register less";
  }
  return errno_error("ibv_reg_mr", errno_value, what, hint);
}

result<detail::page_buffer> map_pages(const owned_region_config& wanted) {
  constexpr std::string_view call = "allocating a region";
  if (wanted.bytes == 0)
    return misuse_error(call, "0 bytes were requested", "request at least one byte");
  const std::size_t page =
      wanted.huge_pages ? huge_page_bytes : static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t bytes = (wanted.bytes + page - 1) / page * page;
  if (bytes < wanted.bytes)
    return misuse_error(call, fmt::format("{} bytes cannot be mapped", wanted.bytes));
  const int huge = wanted.huge_pages ? MAP_HUGETLB | (21 << MAP_HUGE_SHIFT) : 0;
  void* const start =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | huge, -1, 0);
  if (start == MAP_FAILED) {
    return errno_error("mmap", errno, fmt::format("{} bytes", bytes),
                       wanted.huge_pages
                           ? "reserve huge pages: `sysctl vm.nr_hugepages=N`, or use normal pages"
                           : "");
  }
  return detail::page_buffer(start, bytes);
}

/// Registers `buffer` and creates the handle; `owned` is freed after deregistration.
template <class Region>
result<Region> register_buffer(const protection_domain& pd, std::span<const std::byte> buffer,
                               access_flags access, detail::page_buffer owned = {}) {
  RDMAXX_TRY(detail::handle_access::check_process(pd, "ibv_reg_mr"));
  const auto& limits = detail::block_of(pd.context()).limits;
  if (buffer.empty()) return registration_failed(EINVAL, buffer, access, limits);
  auto* const block = new detail::memory_region_block(pd, std::move(owned));
  detail::reference reference(block);
  // By its exported name: the macro ibv_reg_mr tests whether its argument is a constant.
  auto* const start = const_cast<std::byte*>(buffer.data());
  block->native = ibv_reg_mr_iova2(pd.native(), start, buffer.size(),
                                   reinterpret_cast<std::uintptr_t>(start), access.bits());
  if (block->native == nullptr) return registration_failed(errno, buffer, access, limits);
  return detail::handle_access::make<Region>(block->native, std::move(reference), access);
}

result<owned_region> allocate(const protection_domain& pd, const owned_region_config& wanted,
                              access_flags access) {
  RDMAXX_TRY(auto pages, map_pages(wanted));
  const auto bytes = pages.bytes().first(wanted.bytes);
  return register_buffer<owned_region>(pd, bytes, access, std::move(pages));
}

}  // namespace

result<protection_domain> context::alloc_pd() const {
  RDMAXX_TRY(detail::handle_access::check_process(*this, "ibv_alloc_pd"));
  auto* const block = new detail::pd_block(*this);
  detail::reference reference(block);
  RDMAXX_TRY(block->native, check(ibv_alloc_pd(live()), "ibv_alloc_pd"));
  return detail::handle_access::make<protection_domain>(block->native, std::move(reference));
}

result<protection_domain> protection_domain::adopt(ibv_pd* native, const rdmaxx::context& ctx,
                                                   adoption how) {
  if (native == nullptr || !ctx)
    return misuse_error("protection_domain::adopt", "the C domain or the context is null");
  if (native->context != ctx.native()) {
    return misuse_error("protection_domain::adopt", "the domain belongs to another context");
  }
  auto* const block = new detail::pd_block(ctx);
  block->native = native;
  block->adopted = std::move(how);
  return protection_domain(native, detail::reference(block));
}

const rdmaxx::context& protection_domain::context() const noexcept {
  return detail::block_of(*this).parent;
}

result<memory_region> protection_domain::register_local(std::span<std::byte> buffer) const {
  return register_buffer<memory_region>(*this, buffer, access::local_write);
}

result<memory_region> protection_domain::register_readonly(
    std::span<const std::byte> buffer) const {
  return register_buffer<memory_region>(*this, buffer, {});
}

result<memory_region> protection_domain::register_shared(unsafe_t, std::span<std::byte> buffer,
                                                         access_flags access) const {
  return register_buffer<memory_region>(*this, buffer, with_local_write(access));
}

result<owned_region> protection_domain::allocate_local(const owned_region_config& wanted) const {
  return allocate(*this, wanted, access::local_write);
}

result<owned_region> protection_domain::allocate_shared(unsafe_t, const owned_region_config& wanted,
                                                        access_flags access) const {
  return allocate(*this, wanted, access | access::local_write);
}

std::string describe(const owned_region_config& wanted) {
  return fmt::format("{} bytes{}", wanted.bytes, wanted.huge_pages ? " in huge pages" : "");
}

std::string describe(const protection_domain& pd) {
  if (!pd) return "protection_domain (empty)";
  return fmt::format("protection_domain {} on {}", pd.native()->handle, pd.context().device_name());
}

}  // namespace RDMAXX_NAMESPACE
