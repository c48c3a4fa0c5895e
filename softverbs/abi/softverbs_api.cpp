#include <cerrno>
#include <string_view>

#include <base/settings.hpp>
#include <softverbs/softverbs.h>

using namespace softverbs;

const char* softverbs_version(void) { return RDMAXX_VERSION; }

int softverbs_set(const char* name, const char* value) try {
  if (name == nullptr || value == nullptr) return EINVAL;
  std::string_view wanted(name);
  if (constexpr std::string_view prefix = "SOFTVERBS_"; wanted.starts_with(prefix)) {
    wanted.remove_prefix(prefix.size());
  }
  switch (settings::set(wanted, value)) {
    case settings::change::done:
      return 0;
    case settings::change::too_late:
      return EBUSY;
    case settings::change::not_understood:
      return EINVAL;
  }
  return EINVAL;
} catch (...) {
  return ENOMEM;
}
