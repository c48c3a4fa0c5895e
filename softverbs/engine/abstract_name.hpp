// A name in the abstract namespace of AF_UNIX: no file, no permissions, gone with its owner.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

#include <sys/socket.h>
#include <sys/un.h>

namespace softverbs::engine {

struct abstract_name {
  sockaddr_un name{};
  socklen_t bytes = 0;

  abstract_name() = default;
  explicit abstract_name(std::string_view text) {
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }

  friend bool operator==(const abstract_name& a, const abstract_name& b) {
    return a.bytes == b.bytes && std::memcmp(&a.name, &b.name, a.bytes) == 0;
  }
};

}  // namespace softverbs::engine
