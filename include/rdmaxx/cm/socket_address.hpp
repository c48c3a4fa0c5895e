#pragma once

// socket_address: an IPv4 or IPv6 address with a port, as the connection manager uses them.
//
//   auto there = socket_address::parse("10.0.0.7:7471").value();
//   auto any = socket_address::parse("[::]:0").value();            // every address, any free port
//   auto all = socket_address::lookup("storage.example.org:7471").value();   // asks the resolver
//
// A value; immutable in all threads. lookup() without a timeout blocks for as long as the system's
// resolver does. With a timeout it asks the resolver in another thread, which ends with the answer
// even if the caller no longer waits.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

class socket_address {
 public:
  /// Of no family: "no address yet".
  socket_address() noexcept = default;
  /// A copy of a C address; empty if it is neither IPv4 nor IPv6.
  explicit socket_address(const sockaddr& native) noexcept;
  explicit socket_address(const sockaddr_in& native) noexcept;
  explicit socket_address(const sockaddr_in6& native) noexcept;

  /// "10.0.0.7:7471", "[fd00::7]:7471", "[fe80::1%eth0]:7471"; without ":port" the port is 0, and
  /// the brackets are optional.
  [[nodiscard]] static result<socket_address> parse(std::string_view text);
  /// Like parse(), but also accepts a name. Returns all of its addresses, at least one.
  [[nodiscard]] static result<std::vector<socket_address>> lookup(std::string_view text);
  /// ETIMEDOUT when the resolver has not answered in time. At most 16 lookups run at once,
  /// including abandoned ones; more fail with EAGAIN.
  [[nodiscard]] static result<std::vector<socket_address>> lookup(
      std::string_view text, std::optional<std::chrono::milliseconds> timeout);

  [[nodiscard]] bool is_ipv4() const noexcept { return family() == AF_INET; }
  [[nodiscard]] bool is_ipv6() const noexcept { return family() == AF_INET6; }
  /// True for 0.0.0.0 and ::, which mean every address of this host.
  [[nodiscard]] bool is_any() const noexcept;
  explicit operator bool() const noexcept { return family() != AF_UNSPEC; }

  [[nodiscard]] std::uint16_t port() const noexcept;
  [[nodiscard]] socket_address with_port(std::uint16_t port) const noexcept;
  /// "10.0.0.7" or "fd00::7", without port and brackets.
  [[nodiscard]] std::string host() const;

  [[nodiscard]] const sockaddr* native() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }
  /// The size of native() in bytes.
  [[nodiscard]] socklen_t native_size() const noexcept;

  friend bool operator==(const socket_address& a, const socket_address& b) noexcept;

 private:
  [[nodiscard]] int family() const noexcept { return storage_.ss_family; }

  sockaddr_storage storage_{};
};
/// "10.0.0.7:7471", "[fd00::7]:7471": what parse() reads.
[[nodiscard]] std::string describe(const socket_address& address);

}  // namespace RDMAXX_NAMESPACE
