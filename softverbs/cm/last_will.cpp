#include <cm/last_will.hpp>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include <cm/sign_of_life.hpp>
#include <fmt/format.h>
#include <net/credentials.hpp>
#include <net/socket_owner.hpp>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::cm {
namespace {

/// The ports of softverbs processes that show life on that address.
std::vector<std::uint16_t> neighbours_on(const net::address& own) {
  const auto beginning = fmt::format("@{}", text_of_life(own, ""));
  std::vector<std::uint16_t> ports;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const auto at = line.rfind(beginning);
    if (at == std::string::npos) continue;
    std::uint16_t port = 0;
    const char* const begin = line.data() + at + beginning.size();
    const char* const end = line.data() + line.size();
    if (std::from_chars(begin, end, port).ptr == end) ports.push_back(port);
  }
  return ports;
}

std::uint16_t port_of(std::uint32_t number) { return static_cast<std::uint16_t>(number >> 16U); }

/// A connection to a process of a trusted user, if there is one.
engine::private_descriptor connect_to_trusted(const net::address& own, std::uint16_t port) {
  engine::private_descriptor fd(connect_to_life(own, port));
  if (!fd) return {};
  const auto who = net::credentials_of_peer(fd.get());
  if (!who || !net::are_trusted(*who)) return {};
  return fd;
}

}  // namespace

std::optional<will_letter> decode_will(std::span<const std::byte> bytes) {
  will_letter letter;
  if (bytes.size() != sizeof letter) return std::nullopt;
  std::memcpy(&letter, bytes.data(), sizeof letter);
  if (letter.is_valid == 0) return letter;
  const auto& [own, peer, datagram] = letter.will;
  const auto message = wire::decode_cm(datagram);
  if (!message || message->kind != wire::cm_kind::disconnect_request) return std::nullopt;
  if (message->local_id != letter.number || letter.is_valid != 1) return std::nullopt;
  if (own.is_any() || peer.is_any() || peer.is_loopback() || peer.is_multicast())
    return std::nullopt;
  return letter;
}

int testament::find_keeper() {
  if (keeper_ || wills_.empty()) return -1;
  const auto& [first, will] = *wills_.begin();
  const auto& own = will.own;
  for (const auto port : neighbours_on(own)) {
    if (port == port_of(first) || former_.contains(port)) continue;  // this process
    keeper_ = connect_to_trusted(own, port);
    if (!keeper_) continue;
    keeper_port_ = port;
    for (const auto& [number, each] : wills_) tell(number, &each);
    return keeper_.get();
  }
  return -1;
}

void testament::tell(std::uint32_t number, const last_will* will) const {
  will_letter words{.number = number, .is_valid = will != nullptr ? 1U : 0U, .will = {}};
  if (will != nullptr) words.will = *will;
  // A keeper that has stopped reads nothing: what it is not told of it does not do, and what was
  // taken back its peers recognise as old.
  static_cast<void>(::send(keeper_.get(), &words, sizeof words, MSG_DONTWAIT | MSG_NOSIGNAL));
}

int testament::add(std::uint32_t number, const last_will& will) {
  wills_[number] = will;
  if (!keeper_) return find_keeper();
  tell(number, &will);
  return -1;
}

void testament::remove(std::uint32_t number) {
  if (wills_.erase(number) > 0 && keeper_) tell(number, nullptr);
}

int testament::keeper_has_gone() {
  keeper_.reset();
  former_.insert(keeper_port_);
  return find_keeper();
}

bool kept_wills::receive(int fd) {
  constexpr int letters_per_turn = 64;
  std::array<std::byte, sizeof(will_letter)> memory{};
  for (int i = 0; i < letters_per_turn; ++i) {
    // Also the length of what does not fit.
    const auto bytes = ::recv(fd, memory.data(), memory.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (bytes <= 0) return false;
    if (static_cast<std::size_t>(bytes) > memory.size()) continue;
    if (const auto letter = decode_will(std::span(memory).first(static_cast<std::size_t>(bytes))))
      take(by_neighbour_[fd], *letter);
  }
  return true;
}

void kept_wills::take(neighbour& from, const will_letter& letter) {
  if (letter.is_valid == 0) {
    wills_ -= from.wills.erase(letter.number);
    return;
  }
  const std::pair port(letter.will.own, port_of(letter.number));
  if (from.port != port) {
    if (!net::owns_udp_socket(from.user, port.first, port.second)) return;
    from.port = port;
  }
  if (!from.wills.contains(letter.number)) {
    if (from.wills.size() >= most_of_one || wills_ >= most_in_all) return;
    ++wills_;
  }
  from.wills[letter.number] = letter.will;
}

std::vector<last_will> kept_wills::open(int fd) {
  std::vector<last_will> all;
  const auto found = by_neighbour_.find(fd);
  if (found == by_neighbour_.end()) return all;
  for (const auto& [number, will] : found->second.wills) all.push_back(will);
  wills_ -= all.size();
  by_neighbour_.erase(found);
  return all;
}

}  // namespace softverbs::cm
