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
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
    return fds;
  }
  std::memcpy(fds.data(), CMSG_DATA(header),
              std::min<std::size_t>(sizeof fds, header->cmsg_len - CMSG_LEN(0)));
  return fds;
}

}  // namespace softverbs::engine
