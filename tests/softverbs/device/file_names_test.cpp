// Soft devices in the file system, as the functions of the C library show them.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "connected_pair.hpp"
#include "requests.hpp"
#include "waiting.hpp"

// Programs that were built with an older C library call these.
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
extern "C" int __xstat(int version, const char* path, struct stat* out) noexcept;
extern "C" int __lxstat(int version, const char* path, struct stat* out) noexcept;
extern "C" int __fxstatat(int version, int at, const char* path, struct stat* out,
                          int flags) noexcept;
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

namespace softverbs::device_tests {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;

const std::string devices = "/sys/class/infiniband";
const std::string soft0 = devices + "/soft0";
const std::string nodes = "/dev/infiniband";
const std::string node = nodes + "/uverbs_soft0";
const std::string attribute = soft0 + "/node_type";
const std::string attribute_text = "1: CA\n";

class descriptor {
 public:
  explicit descriptor(int fd) : fd_(fd) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

using stream = std::unique_ptr<std::FILE, decltype([](std::FILE* file) { std::fclose(file); })>;
using directory = std::unique_ptr<DIR, decltype([](DIR* open) { ::closedir(open); })>;

std::string read_all(int fd) {
  std::array<char, 4096> memory{};
  const auto bytes = ::read(fd, memory.data(), memory.size());
  return bytes < 0 ? "not readable" : std::string(memory.data(), static_cast<std::size_t>(bytes));
}

std::set<std::string> read_all(DIR* open) {
  std::set<std::string> names;
  while (const auto* const each = ::readdir(open)) names.insert(&each->d_name[0]);
  return names;
}

/// The errno with which a call fails; 0 if it does not.
int failure(int result) { return result < 0 ? errno : 0; }

TEST(file_names, are_opened_by_every_function) {
  EXPECT_EQ(read_all(descriptor(::open(attribute.c_str(), O_RDONLY)).get()), attribute_text);
  EXPECT_EQ(read_all(descriptor(::open64(attribute.c_str(), O_RDONLY)).get()), attribute_text);
  EXPECT_EQ(read_all(descriptor(::openat(AT_FDCWD, attribute.c_str(), O_RDONLY)).get()),
            attribute_text);
  const stream file(std::fopen(attribute.c_str(), "re"));
  ASSERT_NE(file, nullptr);
  std::array<char, 64> line{};
  EXPECT_STREQ(std::fgets(line.data(), line.size(), file.get()), attribute_text.c_str());
  std::ifstream input(attribute);
  std::string text;
  std::getline(input, text);
  EXPECT_EQ(text + "\n", attribute_text);
}

TEST(file_names, that_are_opened_cannot_be_written) {
  EXPECT_EQ(failure(::open(attribute.c_str(), O_RDWR)), EACCES);
  EXPECT_EQ(failure(::open(attribute.c_str(), O_WRONLY | O_TRUNC)), EACCES);
  EXPECT_EQ(std::fopen(attribute.c_str(), "w"), nullptr);
  EXPECT_EQ(failure(::open(soft0.c_str(), O_WRONLY)), EISDIR);
  const descriptor file(::open(attribute.c_str(), O_RDONLY));
  EXPECT_LT(::write(file.get(), "x", 1), 0);
  EXPECT_LT(::ftruncate(file.get(), 0), 0);
}

TEST(file_names, that_do_not_exist_fail_as_others_do) {
  EXPECT_EQ(failure(::open((soft0 + "/nothing").c_str(), O_RDONLY)), ENOENT);
  EXPECT_EQ(failure(::open((attribute + "/x").c_str(), O_RDONLY)), ENOTDIR);
  EXPECT_EQ(failure(::open(attribute.c_str(), O_RDONLY | O_DIRECTORY)), ENOTDIR);
  EXPECT_EQ(failure(::open((soft0 + "/device/net/lo").c_str(), O_RDONLY | O_NOFOLLOW)), ELOOP);
  EXPECT_EQ(failure(::access((devices + "/nobody").c_str(), F_OK)), ENOENT);
  struct stat found{};
  EXPECT_EQ(failure(::stat((nodes + "/nobody").c_str(), &found)), ENOENT);
}

TEST(file_names, of_nodes_are_accessible_character_devices_with_nothing_behind) {
  struct stat found{};
  ASSERT_EQ(::stat(node.c_str(), &found), 0);
  EXPECT_TRUE(S_ISCHR(found.st_mode));
  EXPECT_EQ(::access(node.c_str(), R_OK | W_OK), 0);
  EXPECT_EQ(::faccessat(AT_FDCWD, node.c_str(), R_OK | W_OK, AT_EACCESS), 0);
  EXPECT_EQ(::eaccess(node.c_str(), R_OK | W_OK), 0);
  EXPECT_EQ(failure(::access(node.c_str(), X_OK)), EACCES);
  EXPECT_EQ(failure(::open(node.c_str(), O_RDWR)), ENXIO);
  std::ifstream number("/sys/class/infiniband_verbs/uverbs_soft0/dev");
  std::string text;
  std::getline(number, text);
  EXPECT_EQ(text,
            std::to_string(major(found.st_rdev)) + ":" + std::to_string(minor(found.st_rdev)));
}

TEST(file_names, are_those_that_the_device_says) {
  int count = 0;
  auto** const list = ibv_get_device_list(&count);
  ASSERT_GE(count, 1);
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(::access(list[i]->ibdev_path, F_OK), 0) << list[i]->ibdev_path;
    EXPECT_EQ(::access(list[i]->dev_path, F_OK), 0) << list[i]->dev_path;
    EXPECT_EQ(::access((nodes + "/" + list[i]->dev_name).c_str(), F_OK), 0);
  }
  ibv_free_device_list(list);
}

TEST(file_names, have_the_same_status_by_every_function) {
  struct stat expected{};
  ASSERT_EQ(::stat(attribute.c_str(), &expected), 0);
  EXPECT_TRUE(S_ISREG(expected.st_mode));
  EXPECT_EQ(expected.st_mode & 0777U, 0444U);
  const auto same = [&](const struct stat& other) {
    return other.st_ino == expected.st_ino && other.st_mode == expected.st_mode &&
           other.st_dev == expected.st_dev && other.st_size == expected.st_size;
  };
  struct stat found{};
  EXPECT_TRUE(::lstat(attribute.c_str(), &found) == 0 && same(found));
  found = {};
  EXPECT_TRUE(::fstatat(AT_FDCWD, attribute.c_str(), &found, 0) == 0 && same(found));
  found = {};
  EXPECT_TRUE(::__xstat(1, attribute.c_str(), &found) == 0 && same(found));
  found = {};
  EXPECT_TRUE(::__lxstat(1, attribute.c_str(), &found) == 0 && same(found));
  found = {};
  EXPECT_TRUE(::__fxstatat(1, AT_FDCWD, attribute.c_str(), &found, 0) == 0 && same(found));
  const descriptor file(::open(attribute.c_str(), O_RDONLY));
  found = {};
  EXPECT_TRUE(::fstat(file.get(), &found) == 0 && same(found));
  found = {};
  EXPECT_TRUE(::fstatat(file.get(), "", &found, AT_EMPTY_PATH) == 0 && same(found));
  struct statx more{};
  ASSERT_EQ(::statx(AT_FDCWD, attribute.c_str(), 0, STATX_BASIC_STATS, &more), 0);
  EXPECT_EQ(more.stx_ino, expected.st_ino);
  EXPECT_EQ(more.stx_mode, expected.st_mode);
  struct stat64 wide{};
  ASSERT_EQ(::stat64(attribute.c_str(), &wide), 0);
  EXPECT_EQ(wide.st_ino, expected.st_ino);
}

TEST(file_names, are_listed) {
  const directory open(::opendir(soft0.c_str()));
  ASSERT_NE(open, nullptr);
  const auto names = read_all(open.get());
  EXPECT_THAT(names, IsSupersetOf({".", "..", "node_type", "ports", "device"}));
  EXPECT_EQ(::readdir(open.get()), nullptr);

  ::rewinddir(open.get());
  EXPECT_EQ(read_all(open.get()), names);
  ::rewinddir(open.get());
  static_cast<void>(::readdir(open.get()));
  const auto second = ::telldir(open.get());
  const std::string name = ::readdir(open.get())->d_name;
  static_cast<void>(::readdir(open.get()));
  ::seekdir(open.get(), second);
  EXPECT_EQ(::readdir(open.get())->d_name, name);

  struct stat found{};
  ASSERT_EQ(::fstat(::dirfd(open.get()), &found), 0);
  EXPECT_TRUE(S_ISDIR(found.st_mode));
  ASSERT_EQ(::fstatat(::dirfd(open.get()), "node_type", &found, 0), 0);
  EXPECT_TRUE(S_ISREG(found.st_mode));
}

TEST(file_names, are_scanned_with_a_filter_and_in_order) {
  dirent** list = nullptr;
  const int count = ::scandir((soft0 + "/ports/1").c_str(), &list,
                              [](const dirent* each) { return each->d_name[0] == 'p' ? 1 : 0; },
                              [](const dirent** a, const dirent** b) { return ::alphasort(b, a); });
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.emplace_back(&list[i]->d_name[0]);
    std::free(list[i]);
  }
  std::free(static_cast<void*>(list));
  EXPECT_THAT(names, ElementsAre("pkeys", "phys_state"));
  EXPECT_EQ(failure(::scandir(attribute.c_str(), &list, nullptr, nullptr)), ENOTDIR);
}

TEST(file_names, are_found_from_descriptors_of_directories) {
  descriptor open(::open(soft0.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_GE(open.get(), 0);
  EXPECT_EQ(read_all(descriptor(::openat(open.get(), "node_type", O_RDONLY)).get()),
            attribute_text);
  EXPECT_EQ(::faccessat(open.get(), "ports/1", F_OK, 0), 0);
  EXPECT_EQ(failure(::openat(open.get(), "nothing", O_RDONLY)), ENOENT);
  // Absolute paths, and those of other directories, are the kernel's.
  EXPECT_EQ(::faccessat(open.get(), "/dev/null", F_OK, 0), 0);
  const descriptor kernels(::open("/dev", O_RDONLY | O_DIRECTORY));
  EXPECT_EQ(::faccessat(kernels.get(), "null", F_OK, 0), 0);
  EXPECT_EQ(failure(::faccessat(kernels.get(), "node_type", F_OK, 0)), ENOENT);
  // A copy stands for the same.
  const descriptor copy(::dup(open.get()));
  EXPECT_EQ(::faccessat(copy.get(), "node_type", F_OK, 0), 0);

  const directory list(::fdopendir(open.get()));
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(::dirfd(list.get()), open.release());
  EXPECT_THAT(read_all(list.get()), Contains("node_type"));
}

TEST(file_names, have_links) {
  const auto link = soft0 + "/device/net/lo";
  std::array<char, 256> memory{};
  const auto bytes = ::readlink(link.c_str(), memory.data(), memory.size());
  EXPECT_EQ(std::string(memory.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))),
            "../../../../net/lo");
  EXPECT_EQ(::readlink(link.c_str(), memory.data(), 3), 3);
  EXPECT_EQ(failure(static_cast<int>(::readlink(soft0.c_str(), memory.data(), memory.size()))),
            EINVAL);
  struct stat found{};
  ASSERT_EQ(::lstat(link.c_str(), &found), 0);
  EXPECT_TRUE(S_ISLNK(found.st_mode));
  EXPECT_EQ(::access((link + "/mtu").c_str(), F_OK), ::access("/sys/class/net/lo/mtu", F_OK));

  std::array<char, PATH_MAX> whole{};
  const auto path = "/sys/class/infiniband_verbs/../infiniband_verbs/uverbs_soft0//device/";
  ASSERT_NE(::realpath(path, whole.data()), nullptr);
  EXPECT_EQ(std::string(whole.data()), soft0 + "/device");
  auto* const allocated = ::canonicalize_file_name(soft0.c_str());
  EXPECT_STREQ(allocated, soft0.c_str());
  std::free(allocated);
  EXPECT_EQ(::realpath((soft0 + "/nothing").c_str(), whole.data()), nullptr);
}

TEST(file_names, are_walked_by_the_standard_library) {
  std::set<std::string> names;
  for (const auto& each : std::filesystem::recursive_directory_iterator(devices)) {
    names.insert(each.path().string());
  }
  EXPECT_THAT(names, IsSupersetOf({attribute, soft0 + "/ports/1/gids/0"}));
  EXPECT_TRUE(std::filesystem::is_directory(soft0));
  EXPECT_TRUE(std::filesystem::is_character_file(node));
}

TEST(file_names, can_be_the_working_directory) {
  const auto before = std::filesystem::current_path();
  ASSERT_EQ(::chdir(devices.c_str()), 0);
  // Whoever is started now is not among the files that were here before.
  EXPECT_TRUE(std::filesystem::read_symlink("/proc/self/cwd").string().starts_with("/sys/class"));
  std::array<char, PATH_MAX> memory{};
  EXPECT_EQ(std::string(::getcwd(memory.data(), memory.size())), devices);
  EXPECT_EQ(::getcwd(memory.data(), 4), nullptr);
  EXPECT_EQ(::access("soft0/node_type", R_OK), 0);
  EXPECT_EQ(failure(::access("nobody", R_OK)), ENOENT);
  {
    const directory here(::opendir("."));
    ASSERT_NE(here, nullptr);
    EXPECT_THAT(read_all(here.get()), Contains("soft0"));
  }
  ASSERT_EQ(::chdir("soft0/ports"), 0);
  EXPECT_EQ(std::filesystem::current_path(), soft0 + "/ports");
  EXPECT_EQ(failure(::chdir("1/state")), ENOTDIR);
  EXPECT_EQ(failure(::chdir("2")), ENOENT);

  ASSERT_EQ(::chdir("../../.."), 0);
  EXPECT_EQ(std::filesystem::current_path(), "/sys/class");
  EXPECT_EQ(::access("net", R_OK), 0);

  const descriptor open(::open(soft0.c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::fchdir(open.get()), 0);
  EXPECT_EQ(::access("node_type", R_OK), 0);
  ASSERT_EQ(::chdir(before.c_str()), 0);
  EXPECT_EQ(std::filesystem::current_path(), before);
  EXPECT_EQ(failure(::access("node_type", R_OK)), ENOENT);
}

TEST(file_names, have_no_extended_attributes) {
  EXPECT_EQ(failure(static_cast<int>(::getxattr(node.c_str(), "security.selinux", nullptr, 0))),
            EOPNOTSUPP);
  EXPECT_EQ(::listxattr(node.c_str(), nullptr, 0), 0);
}

TEST(file_names, elsewhere_are_the_kernels_and_errno_stays) {
  errno = 0;
  EXPECT_EQ(::access("/dev/null", R_OK), 0);
  EXPECT_EQ(::access(attribute.c_str(), R_OK), 0);
  const descriptor file(::open(attribute.c_str(), O_RDONLY));
  struct stat found{};
  EXPECT_EQ(::fstat(file.get(), &found), 0);
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(failure(::open("/nonexistent/file", O_RDONLY)), ENOENT);
  const directory root(::opendir("/"));
  EXPECT_THAT(read_all(root.get()), Contains("dev"));
  const auto path = std::filesystem::temp_directory_path() / "softverbs_file_names_test";
  const descriptor made(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0640));
  ASSERT_EQ(::fstat(made.get(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U & ~0640U, 0U);
  EXPECT_NE(found.st_mode & 0600U, 0U) << "the mode reaches the kernel";
  std::filesystem::remove(path);
}

TEST(file_names, are_seen_by_children) {
  const auto child = ::fork();
  if (child == 0) std::_Exit(::access(attribute.c_str(), R_OK) == 0 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(file_names, of_counters_count) {
  const auto read = [](const std::string& name) {
    std::uint64_t value = 0;
    std::ifstream(soft0 + "/ports/1/" + name) >> value;
    return value;
  };
  connected_pair pair;
  const buffer here(pair.a.domain(), 4000);
  const buffer there(pair.b.domain(), 4000);
  const auto packets = read("counters/port_xmit_packets");
  const auto words = read("counters/port_xmit_data");
  const auto received_packets = read("hw_counters/rcvd_pkts");
  const auto received_words = read("counters/port_rcv_data");
  ASSERT_EQ(write(1, {here.sge()}, there.address(), there.rkey()).post(pair.a.qp.get()), 0);
  wait_for_success(pair.a.send_cq.get());
  // A WRITE, and its acknowledgement.
  EXPECT_GE(read("counters/port_xmit_packets"), packets + 2);
  EXPECT_GE(read("counters/port_xmit_data"), words + 1000);
  EXPECT_GE(read("hw_counters/rcvd_pkts"), received_packets + 2);
  EXPECT_GE(read("counters/port_rcv_data"), received_words + 1000);
  EXPECT_EQ(read("counters/symbol_error"), 0U);
}

TEST(file_names, leave_no_descriptors_behind) {
  const auto count = [] {
    const directory open(::opendir("/proc/self/fd"));
    return read_all(open.get()).size();
  };
  static_cast<void>(::access(attribute.c_str(), F_OK));
  const auto before = count();
  for (int i = 0; i < 3; ++i) {
    const directory open(::opendir(soft0.c_str()));
    const stream file(std::fopen(attribute.c_str(), "re"));
    EXPECT_EQ(::opendir(attribute.c_str()), nullptr);
  }
  EXPECT_EQ(count(), before);
}

}  // namespace

}  // namespace softverbs::device_tests
