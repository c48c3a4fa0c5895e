// One rule of a fault plan: what goes wrong, and when.
//
//   lose op=ACK nth=3                 the third acknowledgement
//   delay=20ms rate=0.1               every tenth packet or so
//   complete=REM_ACCESS_ERR op=READ   every read
//   fail=ENOMEM call=ibv_reg_mr nth=2
//   freeze at=1s for=500ms
//
// docs/testing-your-application.md lists all words. A rule is not synchronised: the plan's lock
// guards it.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>

#include <infiniband/verbs.h>

namespace softverbs::engine {

/// Where faults can happen.
enum class fault_site : std::uint8_t {
  packet,     ///< that is about to leave
  operation,  ///< that is posted, or a receive that completes
  call,       ///< of a function
  request,    ///< for a connection
  moment,     ///< a time after the plan has begun
};

/// What is about to happen at a site; only what belongs to the site is set.
struct fault_facts {
  std::string_view operation{};  ///< "SEND", "ACK", …
  std::string_view message{};    ///< of the connection manager: "REQ", …
  std::string_view function{};
  std::uint32_t qpn = 0;
  std::uint32_t qp_order = 0;  ///< 1 for the first queue pair of the process
};

class fault_rule {
 public:
  enum class action : std::uint8_t {
    lose,
    delay,
    duplicate,
    reorder,
    corrupt,
    complete,
    break_queue_pair,
    fail,
    reject,
    port_down,
    freeze,
  };

  /// Or what is wrong with the text.
  [[nodiscard]] static std::expected<fault_rule, std::string> parse(std::string_view text);

  [[nodiscard]] action what() const noexcept { return what_; }
  [[nodiscard]] fault_site site() const noexcept;
  /// Whether it happens this time; counts.
  [[nodiscard]] bool strikes(const fault_facts& facts);
  /// It has happened without being asked.
  void moment_has_come() noexcept { hits_ = 1; }
  [[nodiscard]] std::uint64_t hits() const noexcept { return hits_; }

  void seed(std::uint64_t value) { random_.seed(value); }
  [[nodiscard]] std::uint32_t random() { return static_cast<std::uint32_t>(random_()); }

  [[nodiscard]] std::chrono::nanoseconds delay() const noexcept { return delay_; }
  [[nodiscard]] ibv_wc_status status() const noexcept { return status_; }
  [[nodiscard]] int error() const noexcept { return number_; }
  [[nodiscard]] std::uint16_t reason() const noexcept {
    return static_cast<std::uint16_t>(number_);
  }
  /// Since the plan has begun.
  [[nodiscard]] std::chrono::nanoseconds at() const noexcept {
    return at_.value_or(std::chrono::nanoseconds(0));
  }
  /// Nothing: until the plan is replaced.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> duration() const noexcept { return for_; }

 private:
  [[nodiscard]] bool set_action(std::string_view name, std::string_view value);
  [[nodiscard]] bool set_condition(std::string_view name, std::string_view value);
  /// What is wrong with the words together; empty if nothing.
  [[nodiscard]] std::string contradiction() const;
  [[nodiscard]] bool matches(const fault_facts& facts) const;

  action what_ = action::lose;
  std::chrono::nanoseconds delay_{};
  ibv_wc_status status_ = IBV_WC_SUCCESS;
  int number_ = 0;  ///< errno or reason
  std::optional<std::chrono::nanoseconds> at_;
  std::optional<std::chrono::nanoseconds> for_;

  // Which.
  std::string operation_;
  std::string message_;
  std::string function_;
  std::optional<std::uint32_t> qpn_;
  std::optional<std::uint32_t> qp_order_;

  // When.
  double rate_ = 1;
  std::uint64_t nth_ = 0;
  std::uint64_t every_ = 0;
  std::uint64_t after_ = 0;
  std::uint64_t first_ = 0;
  bool per_qp_ = false;

  std::unordered_map<std::uint32_t, std::uint64_t> seen_;  ///< by queue pair, or under 0
  std::uint64_t hits_ = 0;
  std::mt19937_64 random_{1};
};

}  // namespace softverbs::engine
