// rdma_getaddrinfo: names and services to addresses, as getaddrinfo(3) knows them.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <cm/soft_cm.hpp>
#include <netdb.h>

namespace softverbs::cm {
namespace {

struct freeing {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

/// Freed by freeaddrinfo() below.
sockaddr* copy_of(const sockaddr* address, socklen_t bytes) {
  auto* const copy = static_cast<sockaddr*>(std::calloc(1, bytes));
  if (copy != nullptr) std::memcpy(copy, address, bytes);
  return copy;
}

void set(sockaddr*& place, socklen_t& place_bytes, const sockaddr* address, socklen_t bytes) {
  place = copy_of(address, bytes);
  place_bytes = bytes;
}

void settle_kind(rdma_addrinfo& info, const rdma_addrinfo* hints) {
  if (hints != nullptr) {
    info.ai_flags = hints->ai_flags & RAI_PASSIVE;
    info.ai_qp_type = hints->ai_qp_type;
    info.ai_port_space = hints->ai_port_space;
  }
  if (info.ai_port_space == 0)
    info.ai_port_space = info.ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
  if (info.ai_qp_type == 0)
    info.ai_qp_type = info.ai_port_space == RDMA_PS_UDP || info.ai_port_space == RDMA_PS_IPOIB
                          ? IBV_QPT_UD
                          : IBV_QPT_RC;
}

}  // namespace

int getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                rdma_addrinfo** found) {
  const int flags = hints != nullptr ? hints->ai_flags : 0;
  if (node == nullptr && service == nullptr && hints == nullptr) {
    errno = EINVAL;
    return -1;
  }
  auto* const made = static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)));
  if (made == nullptr) return -1;
  settle_kind(*made, hints);
  const bool passive = (flags & RAI_PASSIVE) != 0;
  if (node != nullptr || service != nullptr) {
    addrinfo wanted{};
    wanted.ai_flags =
        (passive ? AI_PASSIVE : 0) | ((flags & RAI_NUMERICHOST) != 0 ? AI_NUMERICHOST : 0);
    wanted.ai_family = (flags & RAI_FAMILY) != 0 && hints != nullptr ? hints->ai_family : AF_UNSPEC;
    wanted.ai_socktype = made->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM;
    addrinfo* list = nullptr;
    if (const int failure = ::getaddrinfo(node, service, &wanted, &list)) {
      freeaddrinfo(made);
      return failure;
    }
    const std::unique_ptr<addrinfo, freeing> owned(list);
    made->ai_family = list->ai_family;
    if (passive) {
      set(made->ai_src_addr, made->ai_src_len, list->ai_addr, list->ai_addrlen);
    } else {
      set(made->ai_dst_addr, made->ai_dst_len, list->ai_addr, list->ai_addrlen);
    }
  } else {
    // The hints are all that is known, and are taken as they are.
    made->ai_flags = hints->ai_flags;
    made->ai_family = hints->ai_family;
    made->ai_qp_type = hints->ai_qp_type;
    made->ai_port_space = hints->ai_port_space;
    if (hints->ai_dst_len != 0)
      set(made->ai_dst_addr, made->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
  }
  if (made->ai_src_len == 0 && hints != nullptr && hints->ai_src_len != 0)
    set(made->ai_src_addr, made->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
  *found = made;
  return 0;
}

void freeaddrinfo(rdma_addrinfo* list) {
  while (list != nullptr) {
    auto* const next = list->ai_next;
    std::free(list->ai_src_addr);
    std::free(list->ai_dst_addr);
    std::free(list);
    list = next;
  }
}

}  // namespace softverbs::cm
