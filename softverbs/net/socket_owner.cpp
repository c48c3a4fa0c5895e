#include <net/socket_owner.hpp>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace softverbs::net {
namespace {

/// As the tables write it: words of 32 bits in the order of this machine, in hexadecimal.
std::string local_name_of(const address& own, std::uint16_t port) {
  std::string name;
  for (std::size_t at = own.is_ipv4() ? 12 : 0; at < own.raw.size(); at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, own.raw.data() + at, sizeof word);
    name += fmt::format("{:08X}", word);
  }
  return name + fmt::format(":{:04X}", port);
}

/// Takes the next word off the line; empty at its end.
std::string_view next_word(std::string_view& line) {
  const auto begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin);
  const auto word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

}  // namespace

bool owns_udp_socket(std::istream& table, uid_t user, const address& own, std::uint16_t port) {
  const auto name = local_name_of(own, port);
  // Number, local and remote address, state, queues, timer, retransmissions, then the user.
  constexpr int words_before_user = 5;
  bool found = false;
  std::string text;
  std::getline(table, text);  // the names of the columns
  while (std::getline(table, text)) {
    std::string_view line(text);
    next_word(line);
    if (next_word(line) != name) continue;
    for (int i = 0; i < words_before_user; ++i) next_word(line);
    const auto word = next_word(line);
    uid_t owner = 0;
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), owner);
    if (parsed.ec != std::errc() || owner != user) return false;
    found = true;
  }
  return found;
}

bool owns_udp_socket(uid_t user, const address& own, std::uint16_t port) {
  std::ifstream table(own.is_ipv4() ? "/proc/net/udp" : "/proc/net/udp6");
  return owns_udp_socket(table, user, own, port);
}

}  // namespace softverbs::net
