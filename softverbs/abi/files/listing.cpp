#include <abi/files/listing.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string_view>

namespace softverbs::abi::file_access {
namespace {

using softverbs::files::node_kind;

struct open_listings {
  std::mutex mutex;
  std::vector<listing*> all;
};

/// Nearly always zero: then no DIR* can be one of ours.
constinit std::atomic<unsigned> open_count = 0;

// Never destroyed: destructors of static objects may still read directories.
open_listings& opened() {
  static auto* const only = new open_listings;
  return *only;
}

unsigned char type_of(node_kind kind) {
  switch (kind) {
    case node_kind::directory:
      return DT_DIR;
    case node_kind::attribute:
      return DT_REG;
    case node_kind::symlink:
      return DT_LNK;
    case node_kind::character_device:
      return DT_CHR;
  }
  return DT_UNKNOWN;
}

dirent entry(std::string_view name, unsigned char type, std::size_t position) {
  dirent made{};
  made.d_ino = position + 1;
  made.d_off = static_cast<off_t>(position + 1);
  made.d_reclen = sizeof made;
  made.d_type = type;
  name.copy(&made.d_name[0], sizeof made.d_name - 1);
  return made;
}

/// What the kernel has in its directory of that name; nothing if it has none.
std::vector<dirent> kernels_entries(const std::string& path) {
  std::vector<dirent> found;
  auto* const directory = c_library::opendir::call(path.c_str());
  if (directory == nullptr) return found;
  while (const auto* const each = c_library::readdir::call(directory)) {
    const std::string_view name(&each->d_name[0]);
    if (name != "." && name != "..") found.push_back(entry(name, each->d_type, 0));
  }
  c_library::closedir::call(directory);
  return found;
}

}  // namespace

std::vector<dirent> entries_of(const tree_file& file) {
  std::vector<dirent> entries{entry(".", DT_DIR, 0), entry("..", DT_DIR, 1)};
  if (file.what->shared) {
    for (const auto& each : kernels_entries(file.path)) entries.push_back(each);
  }
  for (const auto& [name, what] : file.tree.list(file.path)) {
    const bool known =
        std::ranges::any_of(entries, [&](const dirent& each) { return name == &each.d_name[0]; });
    if (!known) entries.push_back(entry(name, type_of(what->kind), 0));
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].d_ino = i + 1;
    entries[i].d_off = static_cast<off_t>(i + 1);
  }
  return entries;
}

listing* listing::of(DIR* directory) noexcept {
  if (open_count.load(std::memory_order_acquire) == 0) [[likely]]
    return nullptr;
  auto& all = opened();
  const std::lock_guard lock(all.mutex);
  const auto found = std::ranges::find(all.all, reinterpret_cast<listing*>(directory));
  return found == all.all.end() ? nullptr : *found;
}

DIR* listing::release(std::unique_ptr<listing> made) {
  auto& all = opened();
  const std::lock_guard lock(all.mutex);
  all.all.push_back(made.get());
  open_count.fetch_add(1, std::memory_order_release);
  return reinterpret_cast<DIR*>(made.release());
}

std::unique_ptr<listing> listing::take(DIR* directory) noexcept {
  auto* const found = of(directory);
  if (found == nullptr) return nullptr;
  auto& all = opened();
  const std::lock_guard lock(all.mutex);
  std::erase(all.all, found);
  open_count.fetch_sub(1, std::memory_order_release);
  return std::unique_ptr<listing>(found);
}

void listing::rewind() {
  if (auto again = look_up(path_, true); again.file) entries_ = entries_of(*again.file);
  position_ = 0;
}

}  // namespace softverbs::abi::file_access
