#include <base/settings.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <base/log.hpp>
#include <fmt/format.h>

namespace softverbs {

namespace {

constexpr unsigned most_qps = 1U << 24;  // as many as there are queue pair numbers

std::optional<unsigned> parse_number(std::string_view text) {
  std::uint64_t unit = 1;
  if (text.ends_with('K') || text.ends_with('k')) unit = 1U << 10;
  if (text.ends_with('M') || text.ends_with('m')) unit = 1U << 20;
  if (unit != 1) text.remove_suffix(1);

  unsigned number = 0;
  const auto* const end = std::to_address(text.end());
  const auto parsed = std::from_chars(std::to_address(text.begin()), end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return {};
  const auto value = number * unit;
  if (!std::in_range<unsigned>(value)) return {};
  return static_cast<unsigned>(value);
}

template <unsigned settings::* Member, unsigned Least, unsigned Most>
bool assign_number(settings& all, std::string_view text) {
  const auto number = parse_number(text);
  if (!number || *number < Least || *number > Most) return false;
  all.*Member = *number;
  return true;
}

template <bool settings::* Member>
bool assign_switch(settings& all, std::string_view text) {
  const bool on = text == "1" || text == "on" || text == "yes" || text == "true";
  const bool off = text == "0" || text == "off" || text == "no" || text == "false";
  if (on || off) all.*Member = on;
  return on || off;
}

template <std::string settings::* Member>
bool assign_text(settings& all, std::string_view text) {
  all.*Member = text;
  return true;
}

bool assign_log(settings& all, std::string_view text) {
  static constexpr auto names =
      std::to_array<std::string_view>({"none", "error", "warning", "info", "debug"});
  const auto* const name = std::ranges::find(names, text);
  if (name == names.end()) return false;
  all.log = static_cast<log_level>(name - names.begin());
  return true;
}

std::vector<std::string> parse_list(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const auto word = text.substr(0, text.find(','));
    if (!word.empty()) words.emplace_back(word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return words;
}

bool assign_netdevs(settings& all, std::string_view text) {
  all.netdevs = parse_list(text);
  return true;
}

bool assign_trusted_users(settings& all, std::string_view text) {
  std::vector<unsigned> users;
  for (const auto& word : parse_list(text)) {
    const auto number = parse_number(word);
    if (!number) return false;
    users.push_back(*number);
  }
  all.trusted_users = std::move(users);
  return true;
}

bool assign_mtu(settings& all, std::string_view text) {
  const auto number = parse_number(text);
  const auto valid = {256U, 512U, 1024U, 2048U, 4096U};
  if (!number || std::ranges::find(valid, *number) == valid.end()) return false;
  all.mtu = *number;
  return true;
}

bool assign_icrc(settings& all, std::string_view text) {
  if (text != "auto" && text != "always") return false;
  all.icrc = text == "auto" ? icrc_use::where_it_may_leave : icrc_use::always;
  return true;
}

bool assign_cm(settings& all, std::string_view text) {
  if (text == "auto") {
    all.cm = cm_use::automatic;
  } else if (text == "soft") {
    all.cm = cm_use::soft;
  } else if (text == "real") {
    all.cm = cm_use::real;
  } else {
    return false;
  }
  return true;
}

struct variable {
  std::string_view name;  ///< without SOFTVERBS_
  std::string_view expected;
  bool (*assign)(settings&, std::string_view);
};

constexpr auto variables = std::to_array<variable>({
    {"LOG", "none, error, warning, info or debug", assign_log},
    {"NETDEVS", "names of network interfaces, separated by commas", assign_netdevs},
    {"REAL", "0 or 1", assign_switch<&settings::real_devices>},
    {"CM", "auto, soft or real", assign_cm},
    {"MTU", "256, 512, 1024, 2048 or 4096", assign_mtu},
    {"ICRC", "auto or always", assign_icrc},
    {"SHM", "0 or 1", assign_switch<&settings::shared_memory>},
    {"GSO", "0 or 1", assign_switch<&settings::segmentation_offload>},
    {"SOCKET_BUFFER", "bytes, from 4K to 1024M",
     assign_number<&settings::socket_buffer_bytes, 4U << 10, 1U << 30>},
    {"MAX_QP", "1 to 16M", assign_number<&settings::max_qp, 1, most_qps>},
    {"MAX_QP_WR", "1 to 1M", assign_number<&settings::max_qp_wr, 1, 1U << 20>},
    {"MAX_SGE", "1 to 64", assign_number<&settings::max_sge, 1, 64>},
    {"MAX_INLINE", "bytes, from 0 to 64K", assign_number<&settings::max_inline, 0, 1U << 16>},
    {"MAX_CQ", "1 to 16M", assign_number<&settings::max_cq, 1, 1U << 24>},
    {"MAX_CQE", "1 to 64M", assign_number<&settings::max_cqe, 1, 1U << 26>},
    {"MAX_MR", "1 to 8M", assign_number<&settings::max_mr, 1, 1U << 23>},
    {"CAPTURE", "a file name", assign_text<&settings::capture>},
    {"TRUSTED_USERS", "numbers of users, separated by commas", assign_trusted_users},
    {"FAULTS", "a list of faults", assign_text<&settings::faults>},
});

const variable* find_variable(std::string_view name) {
  const auto* const found = std::ranges::find(variables, name, &variable::name);
  return found == variables.end() ? nullptr : found;
}

/// The process's settings, from the calls of set() to the first call of get().
class process_settings {
 public:
  settings::change set(std::string_view name, std::string_view value) {
    settings tried;
    if (!tried.assign(name, value)) return settings::change::not_understood;
    const std::lock_guard lock(mutex_);
    if (used_) return settings::change::too_late;
    wanted_.emplace_back(name, value);
    return settings::change::done;
  }

  settings read() {
    const std::lock_guard lock(mutex_);
    used_ = true;
    std::vector<std::string> problems;
    auto all = settings::from([](const char* name) -> const char* { return std::getenv(name); },
                              [&](std::string_view problem) { problems.emplace_back(problem); });
    for (const auto& [name, value] : wanted_) std::ignore = all.assign(name, value);
    // Not log(), which would ask for the settings.
    if (all.log >= log_level::warning) {
      for (const auto& problem : problems) write_log(log_level::warning, problem);
    }
    return all;
  }

 private:
  std::mutex mutex_;
  bool used_ = false;
  std::vector<std::pair<std::string, std::string>> wanted_;
};

// Never destroyed: threads of the library may outlive the static objects of the program.
process_settings& the_process_settings() {
  static auto* const only = new process_settings;
  return *only;
}

}  // namespace

const settings& settings::get() {
  static const auto* const only = new settings(the_process_settings().read());
  return *only;
}

bool settings::assign(std::string_view name, std::string_view value) {
  const auto* const known = find_variable(name);
  return known != nullptr && known->assign(*this, value);
}

settings::change settings::set(std::string_view name, std::string_view value) {
  return the_process_settings().set(name, value);
}

settings settings::from(const std::function<const char*(const char*)>& lookup,
                        const std::function<void(std::string_view problem)>& report) {
  settings all;
  for (const auto& known : variables) {
    const auto name = fmt::format("SOFTVERBS_{}", known.name);
    const char* const value = lookup(name.c_str());
    // An empty variable is the shell's way of saying "not set".
    if (value == nullptr || *value == '\0' || known.assign(all, value)) continue;
    report(fmt::format("{}={} is ignored: expected {}", name, value, known.expected));
  }
  return all;
}

}  // namespace softverbs
