// What a stream takes as the bytes of its elements, and what it does not.

#include <rdmaxx/stream/sendable_elements.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdmaxx::test {

using detail::sendable_elements;

struct record {
  std::uint32_t key;
  std::uint32_t value;
};

static_assert(sendable_elements<std::string> && sendable_elements<std::string_view>);
static_assert(sendable_elements<std::vector<record>> && sendable_elements<std::span<const int>>);
static_assert(sendable_elements<std::array<double, 3>> && sendable_elements<int[3]>);
static_assert(sendable_elements<std::vector<std::array<int, 2>>>);

static_assert(!sendable_elements<char[5]>, "its zero is not meant");
static_assert(!sendable_elements<std::vector<const char*>>, "pointers mean nothing elsewhere");
static_assert(!sendable_elements<std::vector<std::string_view>>, "nor do views");
static_assert(!sendable_elements<std::array<std::span<const std::byte>, 2>>, "gathered instead");
static_assert(!sendable_elements<std::vector<std::string>>, "not trivially copyable");
static_assert(!sendable_elements<std::list<int>>, "not side by side");
static_assert(!sendable_elements<int>);

}  // namespace rdmaxx::test
