// The names under which programs look for RDMA devices in the file system, with soft devices below
// them: /sys/class/infiniband, /sys/class/infiniband_verbs and /dev/infiniband.
//
// Nothing here touches the file system: a tree is made from descriptions of devices, and answers
// what a path is. abi/files/ serves the answers to programs.
//
// These directories are the kernel's, too, where it has RDMA devices: see `node::shared`. Whatever
// stands below the name of a soft device is of the tree alone.
//
// Owner: whoever made it. A tree does not change; any thread may ask it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <infiniband/verbs.h>
#include <net/address.hpp>

namespace softverbs::files {

/// What the tree tells of a soft device.
struct device {
  std::string name;      ///< soft0
  std::string dev_name;  ///< uverbs_soft0
  std::uint32_t minor = 0;
  std::uint64_t guid = 0;
  std::string netdev;
  ibv_port_attr port{};
  std::vector<net::address> gids;
  unsigned processors = 1;
  std::vector<std::pair<std::string, std::uint64_t>> counters;
  std::vector<std::pair<std::string, std::uint64_t>> hw_counters;
};

enum class node_kind : std::uint8_t { directory, attribute, symlink, character_device };

struct node {
  node_kind kind = node_kind::directory;
  std::string text;         ///< of an attribute, with its line end; where a symlink leads to
  std::uint32_t major = 0;  ///< of a character device
  std::uint32_t minor = 0;  //
  bool shared = false;      ///< the kernel's, where it has one; a directory lists both
};

class tree {
 public:
  explicit tree(std::span<const device> devices);

  /// Where a path leads.
  struct place {
    enum class kind : std::uint8_t {
      here,       ///< `what` is at `path`
      elsewhere,  ///< not in the tree: `path` is for the kernel
      missing,
      not_a_directory,
      too_many_links,
    };
    kind found = kind::missing;
    std::string path;  ///< without symlinks and dots, as far as they are of the tree
    const node* what = nullptr;
  };

  /// An absolute path. `follow` tells whether a symlink at its end is followed.
  [[nodiscard]] place find(std::string_view path, bool follow) const;

  /// The names in a directory of the tree, sorted.
  [[nodiscard]] std::vector<std::pair<std::string, const node*>> list(
      std::string_view directory) const;

 private:
  void add(std::string path, node what);
  void add_directory(const std::string& path);
  void add_attribute(const std::string& path, std::string text);
  void add_device(const device& one);
  void add_port(const device& one, const std::string& port);

  std::map<std::string, node, std::less<>> nodes_;  ///< by path
};

/// Whether a path begins as those of the tree do: all that a program pays for each file that it
/// opens elsewhere.
[[nodiscard]] inline bool may_be_in_tree(const char* path) noexcept {
  constexpr std::string_view classes = "/sys/class/infiniband";
  constexpr std::string_view nodes = "/dev/infiniband";
  const auto begins_with = [&](std::string_view wanted) {
    for (const char each : wanted) {
      if (*path++ != each) return false;
    }
    return true;
  };
  if (path == nullptr || path[0] != '/') return false;
  if (path[1] == 's') return begins_with(classes);
  if (path[1] == 'd') return begins_with(nodes);
  return false;
}

/// The first name below one of the directories: the device of which the path speaks, by its name or
/// by that of its node. Empty for the directories themselves.
[[nodiscard]] std::string_view device_part(std::string_view path) noexcept;

}  // namespace softverbs::files
