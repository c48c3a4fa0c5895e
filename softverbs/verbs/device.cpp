// The list of soft devices, opening and closing them, and what they say of themselves.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <base/descriptor.hpp>
#include <base/log.hpp>
#include <base/settings.hpp>
#include <endian.h>
#include <engine/device_context.hpp>
#include <engine/fault_plan.hpp>
#include <engine/opened_contexts.hpp>
#include <engine/queue_pair.hpp>
#include <net/netdev.hpp>
#include <unistd.h>
#include <verbs/objects.hpp>
#include <verbs/port.hpp>
#include <verbs/soft_verbs.hpp>

namespace softverbs::verbs {
namespace {

// Providers look behind an ibv_device, at what is private to libibverbs: they shall find zeros.
constexpr std::size_t private_bytes = 1024;
constexpr unsigned most_outstanding_reads = 128;
// An OUI of the locally administered kind, 02-73-76 (the last two bytes are "sv"): no vendor has
// it.
constexpr std::uint32_t own_vendor_id = 0x027376;
constexpr std::uint32_t own_part_id = 1;
constexpr std::uint32_t own_hardware_version = 1;
constexpr std::uint64_t clock_khz = 1'000'000;  // timestamps count nanoseconds

struct soft_device {
  ibv_device device{};
  std::array<std::byte, private_bytes> behind{};
  net::netdev netdev;
};

struct device_table {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<soft_device>> by_name;
};

device_table& devices() {
  // Never destroyed, and made without an allocation that could fail.
  alignas(device_table) static std::array<std::byte, sizeof(device_table)> memory;
  static auto* const table = new (memory.data()) device_table;
  return *table;
}

template <std::size_t N>
void copy_name(char (&into)[N], std::string_view text) {
  const auto end = std::ranges::copy(text.substr(0, N - 1), into).out;
  *end = 0;
}

const net::netdev& netdev_of(ibv_context* context) { return context_of(context).place->device(); }

/// From the MAC, but not as EUI-64: that is the GUID of a kernel device on the same interface.
std::uint64_t guid_of(const net::netdev& netdev) {
  const auto& mac = netdev.mac;
  const std::array<std::uint8_t, 8> bytes{
      static_cast<std::uint8_t>(mac[0] ^ 2), mac[1], mac[2], 's', 'v', mac[3], mac[4], mac[5]};
  std::uint64_t guid = 0;
  std::memcpy(&guid, bytes.data(), sizeof guid);
  return guid;
}

int fill_port(ibv_context* context, std::uint8_t number, ibv_port_attr* out, std::size_t bytes) {
  if (number != 1) return EINVAL;
  const auto& place = context_of(context);
  if (!place.is_alive()) return belongs_to_parent;
  const auto netdev = net::netdev_by_index(place.place->device().index);
  const bool up = netdev && netdev->up && !place.place->outages().port_is_down();
  const auto port = describe_port(netdev.value_or(place.place->device()), up);
  std::memset(out, 0, bytes);
  std::memcpy(out, &port, std::min(bytes, sizeof port));
  return 0;
}

int fill_device(ibv_context* context, const ibv_query_device_ex_input* input,
                ibv_device_attr_ex* out, std::size_t bytes) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (bytes < sizeof(ibv_device_attr)) return EINVAL;
  if (!context_of(context).is_alive()) return belongs_to_parent;
  const auto& limits = settings::get();
  ibv_device_attr_ex all{};
  auto& device = all.orig_attr;
  std::strncpy(device.fw_ver, "softverbs", sizeof device.fw_ver - 1);
  device.node_guid = guid_of(netdev_of(context));
  device.sys_image_guid = device.node_guid;
  device.vendor_id = own_vendor_id;
  device.vendor_part_id = own_part_id;
  device.hw_ver = own_hardware_version;
  device.max_mr_size = ~std::uint64_t{0};
  device.page_size_cap = 0xffff'f000;
  device.max_qp = static_cast<int>(limits.max_qp);
  device.max_qp_wr = static_cast<int>(limits.max_qp_wr);
  device.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
                            IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_CHANGE_PHY_PORT |
                            IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_MEM_WINDOW |
                            IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC;
  device.max_sge = static_cast<int>(limits.max_sge);
  device.max_sge_rd = static_cast<int>(limits.max_sge);
  device.max_cq = static_cast<int>(limits.max_cq);
  device.max_cqe = static_cast<int>(limits.max_cqe);
  device.max_mr = static_cast<int>(limits.max_mr);
  device.max_pd = 1 << 20;
  device.max_qp_rd_atom = most_outstanding_reads;
  device.max_res_rd_atom = static_cast<int>(most_outstanding_reads * limits.max_qp);
  device.max_qp_init_rd_atom = most_outstanding_reads;
  // They are atomic towards processors, too; but programs that look for IBV_ATOMIC_HCA, which all
  // devices have, do not always take IBV_ATOMIC_GLOB for more of the same.
  device.atomic_cap = IBV_ATOMIC_HCA;
  device.max_mw = static_cast<int>(limits.max_mr);
  device.max_mcast_grp = 1024;
  device.max_mcast_qp_attach = 1024;
  device.max_total_mcast_qp_attach = 1 << 20;
  device.max_ah = 1 << 20;
  device.max_srq = static_cast<int>(limits.max_qp);
  device.max_srq_wr = static_cast<int>(limits.max_qp_wr);
  device.max_srq_sge = static_cast<int>(limits.max_sge);
  device.max_pkeys = 1;
  device.local_ca_ack_delay = 15;
  device.phys_port_cnt = 1;
  all.completion_timestamp_mask = ~std::uint64_t{0};
  all.hca_core_clock = clock_khz;
  all.device_cap_flags_ex = device.device_cap_flags;
  all.phys_port_cnt_ex = 1;
  std::memset(out, 0, bytes);
  std::memcpy(out, &all, std::min(bytes, sizeof all));
  return 0;
}

int read_clock(ibv_context* /*context*/, ibv_values_ex* values) {
  const auto wanted = values->comp_mask;
  values->comp_mask = 0;
  if ((wanted & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
    ::clock_gettime(CLOCK_REALTIME, &values->raw_clock);
    values->comp_mask |= IBV_VALUES_MASK_RAW_CLOCK;
  }
  return 0;
}

}  // namespace

bool is_soft(const ibv_device* device) noexcept {
  auto& table = devices();
  const std::lock_guard lock(table.mutex);
  return std::ranges::any_of(table.by_name,
                             [&](const auto& each) { return &each.second->device == device; });
}

namespace {

/// With the lock held.
std::vector<soft_device*> present_soft_devices(device_table& table) {
  std::vector<soft_device*> found;
  const bool has_devices = engine::fault_plan::of_process().is_understood();
  const auto netdevs = has_devices ? net::usable_netdevs() : std::vector<net::netdev>();
  for (const auto& netdev : netdevs) {
    const auto name = net::device_name(netdev);
    auto known = table.by_name.find(name);
    if (known == table.by_name.end()) {
      // Once: users read it whenever they like.
      auto made = std::make_unique<soft_device>();
      auto& device = made->device;
      device.node_type = IBV_NODE_CA;
      device.transport_type = IBV_TRANSPORT_IB;
      copy_name(device.name, name);
      copy_name(device.dev_name, "uverbs_" + name);
      copy_name(device.dev_path, "/sys/class/infiniband_verbs/uverbs_" + name);
      copy_name(device.ibdev_path, "/sys/class/infiniband/" + name);
      known = table.by_name.emplace(name, std::move(made)).first;
    }
    known->second->netdev = netdev;
    found.push_back(known->second.get());
  }
  return found;
}

}  // namespace

std::vector<ibv_device*> list_devices() {
  auto& table = devices();
  const std::lock_guard lock(table.mutex);
  std::vector<ibv_device*> found;
  for (auto* const each : present_soft_devices(table)) found.push_back(&each->device);
  return found;
}

__be64 device_guid(ibv_device* device) {
  const std::lock_guard lock(devices().mutex);
  return guid_of(reinterpret_cast<soft_device*>(device)->netdev);
}

int device_index(ibv_device* device) {
  // Far above the numbers that the kernel gives.
  constexpr int first = 1 << 20;
  const std::lock_guard lock(devices().mutex);
  return first + static_cast<int>(reinterpret_cast<soft_device*>(device)->netdev.index);
}

std::vector<present_device> present_devices() {
  auto& table = devices();
  const std::lock_guard lock(table.mutex);
  std::vector<present_device> found;
  for (const auto* const each : present_soft_devices(table)) {
    found.push_back({.name = each->device.name,
                     .dev_name = each->device.dev_name,
                     .guid = be64toh(guid_of(each->netdev)),
                     .netdev = each->netdev});
  }
  return found;
}

ibv_context* open_device(ibv_device* device) {
  if (const int wanted = engine::injected_failure("ibv_open_device"))
    return failed<ibv_context>(wanted);
  auto& soft = *reinterpret_cast<soft_device*>(device);
  net::netdev netdev;
  {
    const std::lock_guard lock(devices().mutex);
    netdev = soft.netdev;
  }
  if (!net::netdev_by_index(netdev.index)) return failed<ibv_context>(ENODEV);
  auto opened = std::make_unique<engine::device_context>(engine::netdev_port::of(netdev));
  if (opened->events.fd() < 0) return failed<ibv_context>(EMFILE);
  auto& verbs = opened->verbs;
  verbs.sz = sizeof verbs;
  verbs.context.device = device;
  verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  verbs.context.cmd_fd = engine::opened_contexts::of_process().add(*opened);
  if (verbs.context.cmd_fd < 0) return nullptr;
  verbs.context.async_fd = opened->events.fd();
  verbs.context.num_comp_vectors = 1;
  ::pthread_mutex_init(&verbs.context.mutex, nullptr);
  set_completion_functions(verbs);
  set_memory_functions(verbs);
  set_queue_pair_functions(verbs);
  set_shared_receive_functions(verbs);
  set_device_functions(verbs);
  return opened.release()->as_ibv();
}

int close_device(ibv_context* context) {
  auto& opened = context_of(context);
  if (!opened.is_alive()) return belongs_to_parent;
  if (!engine::opened_contexts::of_process().close(context->cmd_fd)) return 0;
  const descriptor last(context->cmd_fd);
  // As with the kernel, closing succeeds with objects left over. Whoever still holds one may use or
  // destroy it, so the context stays in memory for them.
  if (opened.objects != 0) {
    log(log_level::info, "{} closed with {} objects left", context->device->name,
        opened.objects.load());
    return 0;
  }
  delete &opened;
  return 0;
}

void set_device_functions(verbs_context& verbs) {
  verbs.query_port = c_function<fill_port>;
  verbs.query_device_ex = c_function<fill_device>;
  verbs.query_rt_values = read_clock;
  verbs.context.ops._compat_query_device = c_function<query_device>;
}

int query_device(ibv_context* context, ibv_device_attr* attributes) {
  ibv_device_attr_ex all;
  const int failure = fill_device(context, nullptr, &all, sizeof all);
  if (failure == 0) *attributes = all.orig_attr;
  return failure;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  return fill_port(context, port, attributes, sizeof *attributes);
}

int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  if (!context_of(context).is_alive()) {
    errno = belongs_to_parent;
    return -1;
  }
  const auto rows = net::gid_table(netdev_of(context));
  if (port != 1 || index < 0 || static_cast<std::size_t>(index) >= rows.size()) {
    errno = EINVAL;
    return -1;
  }
  std::memcpy(gid->raw, rows[static_cast<std::size_t>(index)].gid.raw.data(), sizeof gid->raw);
  return 0;
}

int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                 ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_bytes) {
  if (flags != 0) return EOPNOTSUPP;
  if (!context_of(context).is_alive()) return belongs_to_parent;
  const auto& netdev = netdev_of(context);
  const auto rows = net::gid_table(netdev);
  if (port != 1) return EINVAL;
  if (index >= rows.size()) return ENODATA;
  ibv_gid_entry found{};
  std::memcpy(found.gid.raw, rows[index].gid.raw.data(), sizeof found.gid.raw);
  found.gid_index = index;
  found.port_num = 1;
  found.gid_type = IBV_GID_TYPE_ROCE_V2;
  found.ndev_ifindex = netdev.index;
  std::memset(entry, 0, entry_bytes);
  std::memcpy(entry, &found, std::min(entry_bytes, sizeof found));
  return 0;
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most,
                        std::uint32_t flags, std::size_t entry_bytes) {
  if (flags != 0) return -EOPNOTSUPP;
  if (!context_of(context).is_alive()) return -belongs_to_parent;
  const auto rows = net::gid_table(netdev_of(context)).size();
  if (rows > most) return -EINVAL;
  for (std::size_t i = 0; i < rows; ++i) {
    auto* const entry =
        reinterpret_cast<ibv_gid_entry*>(reinterpret_cast<std::byte*>(entries) + i * entry_bytes);
    if (query_gid_ex(context, 1, static_cast<std::uint32_t>(i), entry, 0, entry_bytes) != 0) {
      return static_cast<ssize_t>(i);
    }
  }
  return static_cast<ssize_t>(rows);
}

int query_pkey(ibv_context* /*context*/, std::uint8_t port, int index, __be16* pkey) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = 0xffff;
  return 0;
}

}  // namespace softverbs::verbs
