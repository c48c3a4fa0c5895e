#include <engine/descriptor_pair.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace softverbs::engine {

bool send_descriptors(int socket, msghdr message, const descriptor_pair& fds) {
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(sizeof fds)> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

received_descriptors::received_descriptors(msghdr& message) {
  message.msg_control = control_.data();
  message.msg_controllen = control_.size();
}

descriptor_pair received_descriptors::take(const msghdr& message) const {
  descriptor_pair fds{-1, -1};
  auto* const whole = const_cast<msghdr*>(&message);
  for (auto* each = CMSG_FIRSTHDR(whole); each != nullptr; each = CMSG_NXTHDR(whole, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    std::memcpy(fds.data(), CMSG_DATA(each),
                std::min<std::size_t>(sizeof fds, each->cmsg_len - CMSG_LEN(0)));
  }
  return fds;
}

}  // namespace softverbs::engine
