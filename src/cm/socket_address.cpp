#include <rdmaxx/cm/socket_address.hpp>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>

#include <rdmaxx/core/readiness.hpp>

#include "cm/name_lookup.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

constexpr std::string_view how_to_write =
    "write 10.0.0.7:7471, [fd00::7]:7471 or host.example.org:7471; to listen, port 0 means any "
    "free one";

/// The C families are views of one storage; copying is the defined way to convert between them.
template <class Native>
Native as(const sockaddr_storage& storage) noexcept {
  Native native{};
  std::memcpy(&native, &storage, sizeof native);
  return native;
}

struct host_and_port {
  std::string host{};
  std::uint16_t port = 0;
};

std::optional<std::uint16_t> port_number(std::string_view digits) noexcept {
  std::uint16_t port = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (failure != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return port;
}

std::optional<host_and_port> split(std::string_view text) {
  auto host = text;
  std::string_view port = "0";
  if (text.starts_with('[')) {
    const auto closing = text.find(']');
    if (closing == std::string_view::npos) return std::nullopt;
    host = text.substr(1, closing - 1);
    const auto rest = text.substr(closing + 1);
    if (!rest.empty() && !rest.starts_with(':')) return std::nullopt;
    if (!rest.empty()) port = rest.substr(1);
  } else if (const auto colon = text.find(':');
             colon != std::string_view::npos && colon == text.rfind(':')) {
    // More than one colon: an IPv6 address without a port.
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  const auto number = port_number(port);
  if (host.empty() || !number) return std::nullopt;
  return host_and_port{.host = std::string(host), .port = *number};
}

std::optional<socket_address> numeric(const host_and_port& parts) {
  sockaddr_in ipv4{};
  if (inet_pton(AF_INET, parts.host.c_str(), &ipv4.sin_addr) == 1) {
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(parts.port);
    return socket_address(ipv4);
  }
  sockaddr_in6 ipv6{};
  const auto percent = parts.host.find('%');
  if (inet_pton(AF_INET6, parts.host.substr(0, percent).c_str(), &ipv6.sin6_addr) != 1)
    return std::nullopt;
  if (percent != std::string::npos) {
    ipv6.sin6_scope_id = if_nametoindex(parts.host.c_str() + percent + 1);
    if (ipv6.sin6_scope_id == 0) return std::nullopt;
  }
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(parts.port);
  return socket_address(ipv6);
}

error not_an_address(std::string_view operation, std::string_view text) {
  const bool many_colons = text.find(':') != text.rfind(':') && !text.starts_with('[');
  return misuse_error(
      operation, fmt::format("\"{}\" is not an address with a port", text),
      many_colons ? fmt::format("an IPv6 address with a port needs brackets: {}", how_to_write)
                  : std::string(how_to_write));
}

error lookup_failed(int code, int errno_value, const std::string& host) {
  if (code == EAI_SYSTEM) return errno_error("getaddrinfo", errno_value, host);
  return error({
      .operation = "getaddrinfo",
      .code = std::make_error_code(code == EAI_AGAIN ? std::errc::resource_unavailable_try_again
                                                     : std::errc::address_not_available),
      .category = code == EAI_AGAIN ? error_category::retryable : error_category::misuse,
      .problem = fmt::format("{}: {}", host, gai_strerror(code)),
      .hint = "check the name, and that the resolver of this host knows it",
  });
}

/// Blocks for as long as the system's resolver does.
result<std::vector<socket_address>> ask_resolver(const host_and_port& parts) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;  // otherwise every address is listed once for each type
  addrinfo* list = nullptr;
  const int code = getaddrinfo(parts.host.c_str(), nullptr, &hints, &list);
  if (code != 0) return lookup_failed(code, errno, parts.host);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  std::vector<socket_address> found;
  for (const auto* each = list; each != nullptr; each = each->ai_next) {
    const auto address = socket_address(*each->ai_addr).with_port(parts.port);
    if (address) found.push_back(address);
  }
  if (found.empty()) return lookup_failed(EAI_NONAME, 0, parts.host);
  return found;
}

}  // namespace

socket_address::socket_address(const sockaddr& native) noexcept {
  if (native.sa_family == AF_INET) {
    std::memcpy(&storage_, &native, sizeof(sockaddr_in));
  } else if (native.sa_family == AF_INET6) {
    std::memcpy(&storage_, &native, sizeof(sockaddr_in6));
  }
}

socket_address::socket_address(const sockaddr_in& native) noexcept {
  std::memcpy(&storage_, &native, sizeof native);
}

socket_address::socket_address(const sockaddr_in6& native) noexcept {
  std::memcpy(&storage_, &native, sizeof native);
}

result<socket_address> socket_address::parse(std::string_view text) {
  if (const auto parts = split(text)) {
    if (const auto address = numeric(*parts)) return *address;
  }
  return not_an_address("socket_address::parse", text);
}

result<std::vector<socket_address>> socket_address::lookup(std::string_view text) {
  return lookup(text, forever);
}

result<std::vector<socket_address>> socket_address::lookup(
    std::string_view text, std::optional<std::chrono::milliseconds> timeout) {
  const auto parts = split(text);
  if (!parts) return not_an_address("socket_address::lookup", text);
  if (const auto address = numeric(*parts)) return std::vector{*address};
  if (!timeout) return ask_resolver(*parts);
  return detail::name_lookup::until(parts->host, *timeout,
                                    [parts = *parts] { return ask_resolver(parts); });
}

bool socket_address::is_any() const noexcept {
  if (is_ipv4()) return as<sockaddr_in>(storage_).sin_addr.s_addr == htonl(INADDR_ANY);
  if (!is_ipv6()) return false;
  const auto address = as<sockaddr_in6>(storage_).sin6_addr;
  return IN6_IS_ADDR_UNSPECIFIED(&address);
}

std::uint16_t socket_address::port() const noexcept {
  if (is_ipv4()) return ntohs(as<sockaddr_in>(storage_).sin_port);
  if (is_ipv6()) return ntohs(as<sockaddr_in6>(storage_).sin6_port);
  return 0;
}

socket_address socket_address::with_port(std::uint16_t port) const noexcept {
  if (is_ipv4()) {
    auto native = as<sockaddr_in>(storage_);
    native.sin_port = htons(port);
    return socket_address(native);
  }
  if (is_ipv6()) {
    auto native = as<sockaddr_in6>(storage_);
    native.sin6_port = htons(port);
    return socket_address(native);
  }
  return *this;
}

std::string socket_address::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_ipv4()) {
    const auto native = as<sockaddr_in>(storage_);
    return inet_ntop(AF_INET, &native.sin_addr, text.data(), text.size());
  }
  if (!is_ipv6()) return {};
  const auto native = as<sockaddr_in6>(storage_);
  std::string host = inet_ntop(AF_INET6, &native.sin6_addr, text.data(), text.size());
  std::array<char, IF_NAMESIZE> scope{};
  if (native.sin6_scope_id != 0 && if_indextoname(native.sin6_scope_id, scope.data()) != nullptr)
    host += fmt::format("%{}", scope.data());
  return host;
}

socklen_t socket_address::native_size() const noexcept {
  if (is_ipv4()) return sizeof(sockaddr_in);
  return is_ipv6() ? sizeof(sockaddr_in6) : 0;
}

bool operator==(const socket_address& a, const socket_address& b) noexcept {
  if (a.family() != b.family()) return false;
  if (a.is_ipv4()) {
    const auto left = as<sockaddr_in>(a.storage_);
    const auto right = as<sockaddr_in>(b.storage_);
    return left.sin_port == right.sin_port && left.sin_addr.s_addr == right.sin_addr.s_addr;
  }
  if (!a.is_ipv6()) return true;
  const auto left = as<sockaddr_in6>(a.storage_);
  const auto right = as<sockaddr_in6>(b.storage_);
  return left.sin6_port == right.sin6_port && left.sin6_scope_id == right.sin6_scope_id &&
         std::memcmp(&left.sin6_addr, &right.sin6_addr, sizeof left.sin6_addr) == 0;
}

std::string describe(const socket_address& address) {
  if (!address) return "no address";
  if (address.is_ipv6()) return fmt::format("[{}]:{}", address.host(), address.port());
  return fmt::format("{}:{}", address.host(), address.port());
}

}  // namespace RDMAXX_NAMESPACE
