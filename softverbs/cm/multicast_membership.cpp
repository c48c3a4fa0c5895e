#include <cm/multicast_membership.hpp>

#include <algorithm>
#include <cerrno>

#include <verbs/soft_verbs.hpp>

namespace softverbs::cm {

multicast_membership::outcome multicast_membership::join(const addressing& address, ibv_qp* qp,
                                                         const sockaddr* group) {
  if (!is_ip(group) || address.device() == nullptr) return {.error = EINVAL};
  membership wanted{.group = net::address::from_sockaddr(group)};
  if (wanted.group.is_any()) return {.error = EINVAL};
  const auto& own = address.both().own;
  if (!address.device()->gid_index_of(own) || wanted.group.is_ipv4() != own.is_ipv4())
    return {.error = EINVAL};
  int failure = 0;
  if (!wanted.group.is_multicast()) {
    failure = EPERM;
  } else if (qp != nullptr) {
    const auto gid = gid_of(wanted.group);
    failure = verbs::attach_mcast(qp, &gid, 0);
    wanted.attached = failure == 0;
  }
  if (failure == 0) joined_.push_back(wanted);
  return {.failure = failure, .group = wanted.group};
}

int multicast_membership::leave(ibv_qp* qp, const sockaddr* group) {
  if (!is_ip(group)) return EINVAL;
  const auto address = net::address::from_sockaddr(group);
  const auto found = std::ranges::find(joined_, address, &membership::group);
  if (found == joined_.end()) return EADDRNOTAVAIL;
  const bool last = std::ranges::count(joined_, address, &membership::group) == 1;
  if (last && found->attached && qp != nullptr) {
    const auto gid = gid_of(address);
    static_cast<void>(verbs::detach_mcast(qp, &gid, 0));
  }
  joined_.erase(found);
  return 0;
}

}  // namespace softverbs::cm
