#include <algorithm>
#include <array>
#include <cstring>

#include <abi/dispatch.hpp>
#include <net/address.hpp>

using namespace softverbs;
using namespace softverbs::abi;

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  return is_soft(pd) ? c_function<verbs::create_ah>(pd, attributes)
                     : RDMAXX_REAL(ibv_create_ah)(pd, attributes);
}

int ibv_destroy_ah(ibv_ah* ah) {
  return is_soft(ah) ? c_function<verbs::destroy_ah>(ah) : RDMAXX_REAL(ibv_destroy_ah)(ah);
}

int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* completion, ibv_grh* grh,
                        ibv_ah_attr* attributes) {
  return is_soft(context)
             ? c_function<verbs::init_ah_from_wc>(context, port, completion, grh, attributes)
             : RDMAXX_REAL(ibv_init_ah_from_wc)(context, port, completion, grh, attributes);
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* completion, ibv_grh* grh, std::uint8_t port) {
  if (!is_soft(pd)) return RDMAXX_REAL(ibv_create_ah_from_wc)(pd, completion, grh, port);
  ibv_ah_attr attributes{};
  const int error =
      c_function<verbs::init_ah_from_wc>(pd->context, port, completion, grh, &attributes);
  if (error > 0) errno = error;
  return error == 0 ? c_function<verbs::create_ah>(pd, &attributes) : nullptr;
}

// For soft devices the kernel looks up MAC addresses when it sends. What follows from the address
// alone can be told (RFC 1112, RFC 2464, RFC 4291); the rest nobody needs.
int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attributes, std::uint8_t* mac,
                                std::uint16_t* vlan) {
  if (!is_soft(context)) {
    return RDMAXX_REAL(ibv_resolve_eth_l2_from_gid)(context, attributes, mac, vlan);
  }
  net::address to;
  std::memcpy(to.raw.data(), &attributes->grh.dgid.raw[0], to.raw.size());
  const auto& raw = to.raw;
  std::array<std::uint8_t, 6> found{};
  if (to.is_multicast() && to.is_ipv4()) {
    found = {0x01, 0x00, 0x5e, static_cast<std::uint8_t>(raw[13] & 0x7f), raw[14], raw[15]};
  } else if (to.is_multicast()) {
    found = {0x33, 0x33, raw[12], raw[13], raw[14], raw[15]};
  } else if (to.is_link_local() && raw[11] == 0xff && raw[12] == 0xfe) {
    found = {static_cast<std::uint8_t>(raw[8] ^ 2), raw[9], raw[10], raw[13], raw[14], raw[15]};
  } else {
    return EOPNOTSUPP;
  }
  std::ranges::copy(found, mac);
  if (vlan != nullptr) *vlan = 0xffff;  // none
  return 0;
}
