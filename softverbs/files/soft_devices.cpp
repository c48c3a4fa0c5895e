#include <files/soft_devices.hpp>

#include <unistd.h>
#include <verbs/port.hpp>
#include <verbs/soft_verbs.hpp>

namespace softverbs::files {
namespace {

// Far above the minor numbers that the kernel gives.
constexpr std::uint32_t first_minor = 1U << 19;

device brief(const verbs::present_device& one) {
  device told;
  told.name = one.name;
  told.dev_name = one.dev_name;
  told.minor = first_minor | (one.netdev.index & (first_minor - 1));
  told.guid = one.guid;
  told.netdev = one.netdev.name;
  return told;
}

device whole(const verbs::present_device& one) {
  auto told = brief(one);
  told.port = verbs::describe_port(one.netdev, one.netdev.up);
  for (const auto& row : net::gid_table(one.netdev)) told.gids.push_back(row.gid);
  const auto processors = ::sysconf(_SC_NPROCESSORS_CONF);
  told.processors = processors > 0 ? static_cast<unsigned>(processors) : 1;
  return told;
}

}  // namespace

std::vector<device> devices_for(std::string_view path) {
  const bool with_dots = path.contains("/.") || path.contains("//");  // it may name several
  const auto named = device_part(path);
  std::vector<device> found;
  for (const auto& each : verbs::present_devices()) {
    const bool meant = with_dots || named == each.name || named == each.dev_name;
    found.push_back(meant ? whole(each) : brief(each));
  }
  return found;
}

}  // namespace softverbs::files
