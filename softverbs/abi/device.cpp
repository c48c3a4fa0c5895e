// What a device or context is asked.

#include <cstring>

#include <abi/dispatch.hpp>

using namespace softverbs;
using namespace softverbs::abi;

const char* ibv_get_device_name(ibv_device* device) { return &device->name[0]; }

__be64 ibv_get_device_guid(ibv_device* device) {
  return is_soft(device) ? c_function<verbs::device_guid>(device)
                         : RDMAXX_REAL(ibv_get_device_guid)(device);
}

int ibv_get_device_index(ibv_device* device) {
  return is_soft(device) ? c_function<verbs::device_index>(device)
                         : RDMAXX_REAL(ibv_get_device_index)(device);
}

ibv_context* ibv_open_device(ibv_device* device) {
  return is_soft(device) ? c_function<verbs::open_device>(device)
                         : RDMAXX_REAL(ibv_open_device)(device);
}

int ibv_close_device(ibv_context* context) {
  return is_soft(context) ? c_function<verbs::close_device>(context)
                          : RDMAXX_REAL(ibv_close_device)(context);
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  return is_soft(context) ? c_function<verbs::query_device>(context, attributes)
                          : RDMAXX_REAL(ibv_query_device)(context, attributes);
}

// Programs whose struct is the present one call through the context; those that come here may have
// been compiled when it was shorter: it ended before port_cap_flags2.
int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  if (!is_soft(context)) return RDMAXX_REAL(ibv_query_port)(context, port, attributes);
  ibv_port_attr whole{};
  const int error = c_function<verbs::query_port>(context, port, &whole);
  if (error == 0) std::memcpy(attributes, &whole, offsetof(ibv_port_attr, port_cap_flags2));
  return error;
}

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  return is_soft(context)
             ? c_function<verbs::query_gid, failure_as::minus_one>(context, port, index, gid)
             : RDMAXX_REAL(ibv_query_gid)(context, port, index, gid);
}

int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, int* type) {
  if (!is_soft(context)) return RDMAXX_REAL(ibv_query_gid_type)(context, port, index, type);
  ibv_gid gid{};
  const int error = c_function<verbs::query_gid, failure_as::minus_one>(
      context, port, static_cast<int>(index), &gid);
  if (error == 0) *type = 1;
  return error;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_bytes) {
  return is_soft(context)
             ? c_function<verbs::query_gid_ex>(context, port, index, entry, flags, entry_bytes)
             : RDMAXX_REAL(_ibv_query_gid_ex)(context, port, index, entry, flags, entry_bytes);
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most,
                             std::uint32_t flags, std::size_t entry_bytes) {
  return is_soft(context)
             ? c_function<verbs::query_gid_table>(context, entries, most, flags, entry_bytes)
             : RDMAXX_REAL(_ibv_query_gid_table)(context, entries, most, flags, entry_bytes);
}

int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  return is_soft(context)
             ? c_function<verbs::query_pkey, failure_as::minus_one>(context, port, index, pkey)
             : RDMAXX_REAL(ibv_query_pkey)(context, port, index, pkey);
}

int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey) {
  if (!is_soft(context)) return RDMAXX_REAL(ibv_get_pkey_index)(context, port, pkey);
  __be16 found = 0;
  for (int index = 0;
       c_function<verbs::query_pkey, failure_as::minus_one>(context, port, index, &found) == 0;
       ++index) {
    if (found == pkey) return index;
  }
  return -1;
}
