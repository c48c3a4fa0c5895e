// The faults that this process has asked for: rules from SOFTVERBS_FAULTS (or a file that it names,
// after an @) or from softverbs_faults(), in their order. What several rules would do to one thing,
// the first of them does.
//
// Any thread may call any function. Sites ask is_active() first, which costs one load.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <engine/clock.hpp>
#include <engine/fault_rule.hpp>
#include <infiniband/verbs.h>
#include <wire/packet.hpp>

namespace softverbs::engine {

/// A queue pair as rules name it.
struct queue_pair_name {
  std::uint32_t qpn = 0;
  std::uint32_t order = 0;  ///< 1 for the first of the process; 0 for none
};

class fault_plan {
 public:
  fault_plan() = default;
  /// As in SOFTVERBS_FAULTS. What is wrong with it is logged.
  explicit fault_plan(const std::string& setting);

  /// False if something was wrong with the setting, which nobody has replaced since.
  [[nodiscard]] bool is_understood() const noexcept {
    return is_understood_.load(std::memory_order_relaxed);
  }

  /// The process's plan; at first that of the settings.
  [[nodiscard]] static fault_plan& of_process();

  /// Replaces all rules, which are separated by semicolons or line ends; # begins a comment.
  /// Returns what is wrong: then nothing has changed. "seed=7" is no rule, but makes chance
  /// repeatable; "loss=0.01,duplicate=0.01" is short for "lose rate=0.01; duplicate rate=0.01".
  [[nodiscard]] std::vector<std::string> replace(std::string_view text);
  /// How often the rule has struck.
  [[nodiscard]] std::uint64_t hits(std::size_t rule) const { return hits(edition(), rule); }
  /// The same of an earlier plan, up to its replacement. Those of the last 64 are remembered.
  [[nodiscard]] std::uint64_t hits(unsigned edition, std::size_t rule) const;

  [[nodiscard]] bool is_active(fault_site site) const noexcept {
    return (active_.load(std::memory_order_relaxed) >> static_cast<unsigned>(site) & 1U) != 0;
  }

  struct packet_fate {
    std::optional<fault_rule::action> what;  ///< nothing: it is sent
    std::chrono::nanoseconds delay{};
    std::uint32_t random = 0;  ///< for the bit that is damaged
  };
  /// `payload` is that of a message of the connection manager, or of no interest.
  [[nodiscard]] packet_fate on_packet(const queue_pair_name& from, const wire::headers& header,
                                      std::span<const std::byte> payload);

  struct operation_fate {
    std::optional<fault_rule::action> what;  ///< nothing: it is carried out
    ibv_wc_status status = IBV_WC_SUCCESS;
    std::optional<std::chrono::nanoseconds> duration;  ///< of an outage; nothing: without end
    unsigned edition = 0;                              ///< of the plan that wants it
  };
  [[nodiscard]] operation_fate on_operation(const queue_pair_name& of, std::string_view operation);
  /// 0, or the errno that the function shall fail with.
  [[nodiscard]] int on_call(std::string_view function);
  /// The reason for which the request shall be rejected.
  [[nodiscard]] std::optional<std::uint16_t> on_request();

  /// A time at which every device of the process is to go down or to freeze.
  struct outage {
    std::size_t rule = 0;
    fault_rule::action what = fault_rule::action::freeze;
    time_point begins;
    std::optional<std::chrono::nanoseconds> duration;
  };
  [[nodiscard]] std::vector<outage> outages() const;
  /// Each device says so.
  void has_begun(const outage& which);
  /// Another one with each replacement.
  [[nodiscard]] unsigned edition() const noexcept { return edition_; }

 private:
  template <class Then>
  void first_that_strikes(fault_site site, const fault_facts& facts, Then then);

  std::atomic<bool> is_understood_ = true;
  std::atomic<unsigned> active_ = 0;
  std::atomic<unsigned> edition_ = 0;
  time_point began_{};
  mutable std::mutex mutex_;
  std::vector<fault_rule> rules_;
  struct replaced_plan {
    unsigned edition;
    std::vector<std::uint64_t> hits;
  };
  std::deque<replaced_plan> replaced_;
};

/// 0, or the errno that the plan wants the function to fail with.
[[nodiscard]] inline int injected_failure(std::string_view function) {
  auto& plan = fault_plan::of_process();
  return plan.is_active(fault_site::call) ? plan.on_call(function) : 0;
}

}  // namespace softverbs::engine
