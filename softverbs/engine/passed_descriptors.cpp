#include <engine/passed_descriptors.hpp>

#include <array>
#include <cstring>
#include <utility>

namespace softverbs::engine {

bool send_descriptors(int socket, msghdr message, std::span<const int> fds) {
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(most_sent_descriptors * sizeof(int))>
      control{};
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

std::size_t descriptors_in(const msghdr& message, std::span<descriptor> fds) {
  std::size_t came = 0;
  auto* const whole = const_cast<msghdr*>(&message);
  for (auto* each = CMSG_FIRSTHDR(whole); each != nullptr; each = CMSG_NXTHDR(whole, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    // Without credentials there is room for more than anybody should send.
    const auto bytes = each->cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(each) + at, sizeof number);
      descriptor fd(number);
      if (came < fds.size()) fds[came] = std::move(fd);
      ++came;
    }
  }
  return came;
}

}  // namespace softverbs::engine
