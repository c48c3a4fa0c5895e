#include <cm/last_will.hpp>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include <cm/sign_of_life.hpp>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::cm {
namespace {

/// What a neighbour is told.
struct letter {
  std::uint32_t number = 0;
  std::uint32_t is_valid = 0;  ///< else it is taken back
  last_will will;
};

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

}  // namespace

int testament::find_keeper() {
  if (keeper_ >= 0 || wills_.empty()) return -1;
  const auto& [first, will] = *wills_.begin();
  const auto& own = will.own;
  for (const auto port : neighbours_on(own)) {
    if (port == first >> 16U) continue;  // this process
    keeper_ = connect_to_life(own, port);
    if (keeper_ < 0) continue;
    for (const auto& [number, each] : wills_) tell(number, &each);
    return keeper_;
  }
  return -1;
}

void testament::tell(std::uint32_t number, const last_will* will) const {
  letter words{.number = number, .is_valid = will != nullptr ? 1U : 0U, .will = {}};
  if (will != nullptr) words.will = *will;
  // A keeper that has stopped reads nothing: what it is not told of it does not do, and what was
  // taken back its peers recognise as old.
  static_cast<void>(::send(keeper_, &words, sizeof words, MSG_DONTWAIT | MSG_NOSIGNAL));
}

int testament::add(std::uint32_t number, const last_will& will) {
  wills_[number] = will;
  if (keeper_ < 0) return find_keeper();
  tell(number, &will);
  return -1;
}

void testament::remove(std::uint32_t number) {
  if (wills_.erase(number) > 0 && keeper_ >= 0) tell(number, nullptr);
}

int testament::keeper_has_gone() {
  ::close(keeper_);
  keeper_ = -1;
  return find_keeper();
}

bool kept_wills::receive(int fd) {
  constexpr int letters_per_turn = 64;
  constexpr std::size_t most_wills = 65536;
  letter words;
  for (int i = 0; i < letters_per_turn; ++i) {
    const auto bytes = ::recv(fd, &words, sizeof words, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (bytes <= 0) return false;
    if (bytes != sizeof words) continue;
    auto& wills = by_neighbour_[fd];
    if (words.is_valid == 0) {
      wills.erase(words.number);
    } else if (wills.size() < most_wills) {
      wills[words.number] = words.will;
    }
  }
  return true;
}

std::vector<last_will> kept_wills::open(int fd) {
  std::vector<last_will> all;
  const auto found = by_neighbour_.find(fd);
  if (found == by_neighbour_.end()) return all;
  for (const auto& [number, will] : found->second) all.push_back(will);
  by_neighbour_.erase(found);
  return all;
}

}  // namespace softverbs::cm
