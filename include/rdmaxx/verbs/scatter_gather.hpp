#pragma once

// gather_element, scatter_element: proof that a piece of memory is registered.
//
// A gather_element is read by the device (sends, writes), a scatter_element is written by it
// (receives, reads, atomics). memory_region creates both and checks that the bytes lie inside it; a
// const buffer gives no scatter_element. Both are just an ibv_sge, so arrays of them go to the
// driver unchanged.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <infiniband/verbs.h>

#include <rdmaxx/core/identifiers.hpp>

namespace RDMAXX_NAMESPACE {

class memory_region;

class gather_element : private ibv_sge {
 public:
  /// An empty element: no bytes.
  constexpr gather_element() noexcept : ibv_sge{} {}

  /// Bytes that are not registered: only for requests with send_flag::inline_data, whose bytes the
  /// CPU copies while posting. The device fails any other request with such an element.
  [[nodiscard]] static gather_element unregistered(std::span<const std::byte> bytes) noexcept {
    return {reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), 0};
  }

  [[nodiscard]] constexpr std::uint64_t address() const noexcept { return addr; }
  [[nodiscard]] constexpr std::uint32_t size() const noexcept { return length; }
  [[nodiscard]] constexpr rdmaxx::lkey key() const noexcept { return rdmaxx::lkey(ibv_sge::lkey); }

 private:
  friend class memory_region;
  gather_element(std::uint64_t place, std::size_t bytes, std::uint32_t key) noexcept
      : ibv_sge{.addr = place, .length = static_cast<std::uint32_t>(bytes), .lkey = key} {}
};

class scatter_element : private ibv_sge {
 public:
  constexpr scatter_element() noexcept : ibv_sge{} {}

  [[nodiscard]] constexpr std::uint64_t address() const noexcept { return addr; }
  [[nodiscard]] constexpr std::uint32_t size() const noexcept { return length; }
  [[nodiscard]] constexpr rdmaxx::lkey key() const noexcept { return rdmaxx::lkey(ibv_sge::lkey); }

 private:
  friend class memory_region;
  scatter_element(std::uint64_t place, std::size_t bytes, std::uint32_t key) noexcept
      : ibv_sge{.addr = place, .length = static_cast<std::uint32_t>(bytes), .lkey = key} {}
};

[[nodiscard]] std::string describe(const gather_element& element);
[[nodiscard]] std::string describe(const scatter_element& element);

namespace detail {

template <class Element>
inline constexpr bool is_sge =
    sizeof(Element) == sizeof(ibv_sge) && alignof(Element) == alignof(ibv_sge) &&
    std::is_standard_layout_v<Element> && std::is_trivially_copyable_v<Element> &&
    std::is_trivially_destructible_v<Element>;
static_assert(is_sge<gather_element> && is_sge<scatter_element>);

/// The C list of a list of elements. The C API takes a pointer to non-const and does not write
/// through it.
template <class Element>
  requires is_sge<Element>
[[nodiscard]] ibv_sge* native_list(std::span<const Element> elements) noexcept {
  return reinterpret_cast<ibv_sge*>(const_cast<Element*>(elements.data()));
}

}  // namespace detail

}  // namespace RDMAXX_NAMESPACE
