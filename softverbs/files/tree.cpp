#include <files/tree.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace softverbs::files {
namespace {

constexpr std::string_view devices_directory = "/sys/class/infiniband";
constexpr std::string_view verbs_directory = "/sys/class/infiniband_verbs";
constexpr std::string_view nodes_directory = "/dev/infiniband";
constexpr std::array directories{devices_directory, verbs_directory, nodes_directory};
// Those above: what else they contain is the kernel's.
constexpr std::array<std::string_view, 4> above{"", "/sys", "/sys/class", "/dev"};

constexpr std::uint32_t uverbs_major = 231;
constexpr unsigned most_links = 40;  // as the kernel

std::string guid_text(std::uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}\n", guid >> 48, (guid >> 32) & 0xffff,
                     (guid >> 16) & 0xffff, guid & 0xffff);
}

std::string gid_text(const net::address& gid) {
  std::string text;
  for (std::size_t i = 0; i < gid.raw.size(); i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.raw[i], gid.raw[i + 1]);
  }
  return text + "\n";
}

std::string state_text(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "1: DOWN\n";
    case IBV_PORT_INIT:
      return "2: INIT\n";
    case IBV_PORT_ARMED:
      return "3: ARMED\n";
    case IBV_PORT_ACTIVE:
      return "4: ACTIVE\n";
    default:
      return fmt::format("{}: <unknown>\n", static_cast<int>(state));
  }
}

std::string physical_state_text(unsigned state) {
  constexpr std::array<std::string_view, 8> names{
      "<unknown>",         "Sleep",   "Polling", "Disabled", "PortConfigurationTraining", "LinkUp",
      "LinkErrorRecovery", "Phy Test"};
  return fmt::format("{}: {}\n", state, names[state < names.size() ? state : 0]);
}

/// As the kernel writes it: 100 Gb/sec (4X EDR).
std::string rate_text(const ibv_port_attr& port) {
  struct lane {
    unsigned code;
    unsigned tenths;  ///< of Gb/s
    std::string_view name;
  };
  constexpr std::array<lane, 6> lanes{{{1, 25, "SDR"},
                                       {2, 50, "DDR"},
                                       {4, 100, "QDR"},
                                       {8, 100, "FDR10"},
                                       {16, 140, "FDR"},
                                       {32, 250, "EDR"}}};
  const auto* const found = std::ranges::find(lanes, port.active_speed, &lane::code);
  const auto& each = found == lanes.end() ? lanes.front() : *found;
  const unsigned width = port.active_width == 2 ? 4 : 1;
  const auto tenths = each.tenths * width;
  const auto fraction = tenths % 10 == 0 ? std::string() : fmt::format(".{}", tenths % 10);
  return fmt::format("{}{} Gb/sec ({}X {})\n", tenths / 10, fraction, width, each.name);
}

/// All processors, as the kernel writes masks: words of 32 bits, the highest first.
std::string processor_mask(unsigned processors) {
  std::string text;
  for (auto words = (processors + 31) / 32; words > 0; --words) {
    const auto in_word = std::min(processors - (words - 1) * 32, 32U);
    const auto mask = in_word == 32 ? 0xffff'ffffU : (1U << in_word) - 1;
    text += text.empty() ? fmt::format("{:x}", mask) : fmt::format(",{:08x}", mask);
  }
  return text + "\n";
}

std::optional<std::string_view> directory_of(std::string_view path) {
  for (const auto each : directories) {
    if (path == each || (path.starts_with(each) && path[each.size()] == '/')) return each;
  }
  return std::nullopt;
}

bool is_above(std::string_view path) { return std::ranges::find(above, path) != above.end(); }

std::string_view parent_of(std::string_view path) { return path.substr(0, path.rfind('/')); }

/// The names of a path, the last first: what is still to be walked, as a stack.
void push_names(std::vector<std::string>& stack, std::string_view path) {
  const auto first = static_cast<std::ptrdiff_t>(stack.size());
  while (!path.empty()) {
    const auto slash = path.find('/');
    const auto name = path.substr(0, slash);
    if (!name.empty()) stack.emplace_back(name);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  std::reverse(stack.begin() + first, stack.end());
}

}  // namespace

tree::tree(std::span<const device> devices) {
  for (const auto each : directories) {
    add(std::string(each), {.kind = node_kind::directory, .text = {}, .shared = true});
  }
  add(fmt::format("{}/abi_version", verbs_directory),
      {.kind = node_kind::attribute, .text = "6\n", .shared = true});
  for (const auto& each : devices) add_device(each);
}

void tree::add(std::string path, node what) {
  nodes_.insert_or_assign(std::move(path), std::move(what));
}

void tree::add_directory(const std::string& path) { add(path, {}); }

void tree::add_attribute(const std::string& path, std::string text) {
  add(path, {.kind = node_kind::attribute, .text = std::move(text)});
}

void tree::add_device(const device& one) {
  const auto root = fmt::format("{}/{}", devices_directory, one.name);
  add_directory(root);
  add_attribute(root + "/node_type", "1: CA\n");
  add_attribute(root + "/node_desc", "softverbs\n");
  add_attribute(root + "/board_id", "softverbs\n");
  add_attribute(root + "/hca_type", "softverbs\n");
  add_attribute(root + "/fw_ver", RDMAXX_VERSION "\n");
  add_attribute(root + "/hw_rev", "1\n");
  add_attribute(root + "/node_guid", guid_text(one.guid));
  add_attribute(root + "/sys_image_guid", guid_text(one.guid));

  const auto behind = root + "/device";
  add_directory(behind);
  add_attribute(behind + "/numa_node", "-1\n");
  add_attribute(behind + "/local_cpus", processor_mask(one.processors));
  add_attribute(behind + "/local_cpulist",
                one.processors == 1 ? "0\n" : fmt::format("0-{}\n", one.processors - 1));
  add_directory(behind + "/net");
  add(fmt::format("{}/net/{}", behind, one.netdev),
      {.kind = node_kind::symlink, .text = "../../../../net/" + one.netdev});
  add_directory(behind + "/infiniband");
  add(fmt::format("{}/infiniband/{}", behind, one.name),
      {.kind = node_kind::symlink, .text = "../../../" + one.name});
  add_directory(behind + "/infiniband_verbs");
  add(fmt::format("{}/infiniband_verbs/{}", behind, one.dev_name),
      {.kind = node_kind::symlink, .text = "../../../../infiniband_verbs/" + one.dev_name});

  add_directory(root + "/ports");
  add_port(one, root + "/ports/1");

  const auto verbs = fmt::format("{}/{}", verbs_directory, one.dev_name);
  add_directory(verbs);
  add_attribute(verbs + "/ibdev", one.name + "\n");
  add_attribute(verbs + "/abi_version", "1\n");
  add_attribute(verbs + "/dev", fmt::format("{}:{}\n", uverbs_major, one.minor));
  add_attribute(verbs + "/uevent", fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=infiniband/{}\n",
                                               uverbs_major, one.minor, one.dev_name));
  add(verbs + "/device",
      {.kind = node_kind::symlink, .text = fmt::format("../../infiniband/{}/device", one.name)});

  add(fmt::format("{}/{}", nodes_directory, one.dev_name),
      {.kind = node_kind::character_device, .text = {}, .major = uverbs_major, .minor = one.minor});
}

void tree::add_port(const device& one, const std::string& port) {
  add_directory(port);
  add_attribute(port + "/cap_mask", fmt::format("{:#010x}\n", one.port.port_cap_flags));
  add_attribute(port + "/lid", "0x0\n");
  add_attribute(port + "/lid_mask_count", "0\n");
  add_attribute(port + "/sm_lid", "0x0\n");
  add_attribute(port + "/sm_sl", "0\n");
  add_attribute(port + "/link_layer", "Ethernet\n");
  add_attribute(port + "/state", state_text(one.port.state));
  add_attribute(port + "/phys_state", physical_state_text(one.port.phys_state));
  add_attribute(port + "/rate", rate_text(one.port));
  add_directory(port + "/pkeys");
  add_attribute(port + "/pkeys/0", "0xffff\n");
  add_directory(port + "/gids");
  add_directory(port + "/gid_attrs");
  add_directory(port + "/gid_attrs/types");
  add_directory(port + "/gid_attrs/ndevs");
  for (std::size_t i = 0; i < one.gids.size(); ++i) {
    add_attribute(fmt::format("{}/gids/{}", port, i), gid_text(one.gids[i]));
    add_attribute(fmt::format("{}/gid_attrs/types/{}", port, i), "RoCE v2\n");
    add_attribute(fmt::format("{}/gid_attrs/ndevs/{}", port, i), one.netdev + "\n");
  }
  for (const auto& [name, all] :
       {std::pair("counters", &one.counters), {"hw_counters", &one.hw_counters}}) {
    add_directory(fmt::format("{}/{}", port, name));
    for (const auto& [counter, value] : *all)
      add_attribute(fmt::format("{}/{}/{}", port, name, counter), fmt::format("{}\n", value));
  }
}

tree::place tree::find(std::string_view path, bool follow) const {
  using enum place::kind;
  // What a slash at the end follows has to be a directory.
  const bool wants_directory = path.ends_with('/') || path.ends_with("/.");
  std::vector<std::string> names;
  push_names(names, path);
  std::string at;
  const node* what = nullptr;
  unsigned links = 0;
  const auto rest = [&](std::string where) {
    for (; !names.empty(); names.pop_back()) where.append("/").append(names.back());
    if (where.empty()) where = "/";
    return place{.found = elsewhere, .path = std::move(where), .what = nullptr};
  };
  const auto fails = [](place::kind why) {
    return place{.found = why, .path = {}, .what = nullptr};
  };
  while (!names.empty()) {
    const auto name = std::move(names.back());
    names.pop_back();
    if (what != nullptr && what->kind != node_kind::directory) return fails(not_a_directory);
    if (name == ".") continue;
    if (name == "..") {
      at = parent_of(at);
      const auto up = nodes_.find(at);
      what = up == nodes_.end() ? nullptr : &up->second;
      continue;
    }
    auto next = fmt::format("{}/{}", at, name);
    const auto found = nodes_.find(next);
    if (found == nodes_.end()) {
      // In a directory that the kernel shares, or above them, the name is the kernel's.
      if (what == nullptr && !is_above(next)) return rest(std::move(next));
      if (what != nullptr) {
        if (what->shared) return rest(std::move(next));
        return fails(missing);
      }
      at = std::move(next);
      continue;
    }
    if (found->second.kind == node_kind::symlink && (follow || wants_directory || !names.empty())) {
      if (++links > most_links) return fails(too_many_links);
      push_names(names, found->second.text);
      continue;  // from the directory in which the symlink is
    }
    at = std::move(next);
    what = &found->second;
  }
  if (what == nullptr) return rest(std::move(at));
  if (wants_directory && what->kind != node_kind::directory) return fails(not_a_directory);
  return {.found = here, .path = std::move(at), .what = what};
}

std::vector<std::pair<std::string, const node*>> tree::list(std::string_view directory) const {
  std::vector<std::pair<std::string, const node*>> found;
  const auto prefix = std::string(directory) + "/";
  for (auto each = nodes_.lower_bound(prefix);
       each != nodes_.end() && each->first.starts_with(prefix); ++each) {
    auto name = each->first.substr(prefix.size());
    if (!name.contains('/')) found.emplace_back(std::move(name), &each->second);
  }
  return found;
}

std::string_view device_part(std::string_view path) noexcept {
  const auto directory = directory_of(path);
  if (!directory || path.size() <= directory->size()) return {};
  path.remove_prefix(directory->size() + 1);
  return path.substr(0, path.find('/'));
}

}  // namespace softverbs::files
