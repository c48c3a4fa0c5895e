#pragma once

// faults: what shall go wrong in this process's soft devices, for tests of the code that has to
// cope with it.
//
//   namespace faults = rdmaxx::faults;
//   auto plan = faults::inject({faults::lose().of(faults::packet::ack).nth(3),
//                               faults::fail_with(ENOMEM).call("ibv_reg_mr").nth(2)}).value();
//   run the code under test, then
//   EXPECT_EQ(plan.hits(1), 1);
//
// A rule is an action with conditions; of several that would strike, the first does. Chance is
// repeatable: the same seed gives the same decisions for the same sequence of events. The same
// rules can be written as text, in SOFTVERBS_FAULTS, for programs that nobody wants to change;
// docs/testing-your-application.md explains them all.
//
//   faults::virtual_time time;      // no timer runs any more …
//   time.advance(2min);             // … except those of these two minutes, in their order, now
//
// Lifetime: there is one plan in a process; a new one replaces it, and the destructor of the last
// one ends the faults. Threads: any, but a plan is meant to be held by one test at a time.

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <softverbs/softverbs.h>

#include <rdmaxx/core/error.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/work_completion.hpp>

namespace rdmaxx::inline v0::faults {

/// What a packet carries.
enum class packet : std::uint8_t {
  send,
  write,
  read,  ///< the request
  read_response,
  atomic,
  atomic_ack,
  ack,
  nak,  ///< a refusal
  rnr,  ///< the refusal for want of a receive request
};
[[nodiscard]] constexpr std::string_view describe(packet kind) noexcept {
  constexpr std::string_view names[]{
      "SEND", "WRITE", "READ", "READ_RESPONSE", "ATOMIC", "ATOMIC_ACK", "ACK", "NAK", "RNR"};
  return names[static_cast<std::size_t>(kind)];
}

/// A work request.
enum class operation : std::uint8_t { send, write, read, atomic, bind, invalidate, recv };
[[nodiscard]] constexpr std::string_view describe(operation kind) noexcept {
  constexpr std::string_view names[]{"SEND", "WRITE",      "READ", "ATOMIC",
                                     "BIND", "INVALIDATE", "RECV"};
  return names[static_cast<std::size_t>(kind)];
}

/// What connection managers say to each other.
enum class cm_message : std::uint8_t { req, mra, rej, rep, rtu, dreq, drep, sidr_req, sidr_rep };
[[nodiscard]] constexpr std::string_view describe(cm_message kind) noexcept {
  constexpr std::string_view names[]{"REQ",  "MRA",  "REJ",      "REP",     "RTU",
                                     "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"};
  return names[static_cast<std::size_t>(kind)];
}

/// An action and its conditions, which may stand in any order.
class rule {
 public:
  // Which?
  rule of(packet kind) && { return std::move(*this).with("op", describe(kind)); }
  rule of(operation kind) && { return std::move(*this).with("op", describe(kind)); }
  rule of(cm_message kind) && { return std::move(*this).with("cm", describe(kind)); }
  rule call(std::string_view function) && { return std::move(*this).with("call", function); }
  rule on(qpn number) && { return std::move(*this).with("qp", std::to_string(number.value())); }
  /// The first queue pair that the process has made is 1.
  rule on_nth_qp(std::uint32_t order) && {
    return std::move(*this).with("nth_qp", std::to_string(order));
  }

  // When? Counting begins with the plan, for each rule.
  rule nth(std::uint64_t number) && { return std::move(*this).with("nth", std::to_string(number)); }
  rule every(std::uint64_t period) && {
    return std::move(*this).with("every", std::to_string(period));
  }
  rule after(std::uint64_t count) && {
    return std::move(*this).with("after", std::to_string(count));
  }
  rule first(std::uint64_t count) && {
    return std::move(*this).with("first", std::to_string(count));
  }
  rule rate(double probability) && {
    return std::move(*this).with("rate", fmt::format("{}", probability));
  }
  /// Counts each queue pair's for themselves.
  rule per_queue_pair() && {
    text_ += " per_qp";
    return std::move(*this);
  }

  // Outages.
  rule at(std::chrono::nanoseconds since_begin) && {
    return std::move(*this).with("at", time(since_begin));
  }
  rule lasting(std::chrono::nanoseconds duration) && {
    return std::move(*this).with("for", time(duration));
  }

  /// As SOFTVERBS_FAULTS has it.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  explicit rule(std::string action) : text_(std::move(action)) {}
  [[nodiscard]] static std::string time(std::chrono::nanoseconds duration) {
    return std::to_string(duration.count()) + "ns";
  }

 private:
  rule with(std::string_view name, std::string_view value) && {
    text_.append(" ").append(name).append("=").append(value);
    return std::move(*this);
  }

  std::string text_;
};

[[nodiscard]] inline const std::string& describe(const rule& what) noexcept { return what.text(); }

// Packets that are about to leave.
[[nodiscard]] inline rule lose() { return rule("lose"); }
[[nodiscard]] inline rule delay(std::chrono::nanoseconds by) {
  return rule("delay=" + rule::time(by));
}
[[nodiscard]] inline rule duplicate() { return rule("duplicate"); }
/// The next packet overtakes it.
[[nodiscard]] inline rule reorder() { return rule("reorder"); }
/// One bit is wrong: the receiver drops it.
[[nodiscard]] inline rule corrupt() { return rule("corrupt"); }

// Operations, when they are posted, and receives, when they complete.
/// It is not carried out, and its queue pair fails as it would with that status.
[[nodiscard]] inline rule complete_with(wc_status status) {
  return rule("complete=" + std::to_string(static_cast<int>(status)));
}
/// The queue pair enters the error state, with the event qp_fatal.
[[nodiscard]] inline rule break_queue_pair() { return rule("break"); }

/// A function that rule::call() names.
[[nodiscard]] inline rule fail_with(int errno_value) {
  return rule("fail=" + std::to_string(errno_value));
}
/// Connection requests that reach this process; 28 is what rdma_reject says.
[[nodiscard]] inline rule reject(std::uint16_t reason = 28) {
  return rule("reject=" + std::to_string(reason));
}

// All devices of the process at a moment, or that of an operation when it is posted.
[[nodiscard]] inline rule port_down() { return rule("port_down"); }
/// Nothing is sent, received or counted: to its peers, a program that hangs.
[[nodiscard]] inline rule freeze() { return rule("freeze"); }

/// The faults of this process; they end with it.
class plan {
 public:
  plan(plan&& other) noexcept : number_(std::exchange(other.number_, 0)) {}
  /// The other's rules have replaced this one's already, or the other way round.
  plan& operator=(plan&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  plan(const plan&) = delete;
  plan& operator=(const plan&) = delete;
  ~plan() {
    if (number_ == ::softverbs_faults_number()) ::softverbs_faults(nullptr);
  }

  /// How often the rule at this position of this plan has struck; of a plan that another one has
  /// replaced, until then.
  [[nodiscard]] std::uint64_t hits(std::size_t rule = 0) const {
    return ::softverbs_faults_hits_of(number_, rule);
  }

  /// Text as in SOFTVERBS_FAULTS.
  [[nodiscard]] static result<plan> from_text(const std::string& rules) {
    if (::softverbs_faults(rules.c_str()) != 0)
      return misuse_error("injecting faults", ::softverbs_faults_problem());
    return plan();
  }

 private:
  plan() : number_(::softverbs_faults_number()) {}

  std::uint64_t number_;  ///< 0: moved from
};

/// Replaces whatever was injected before.
[[nodiscard]] inline result<plan> inject(std::initializer_list<rule> rules,
                                         std::uint64_t seed = 1) {
  auto text = "seed=" + std::to_string(seed);
  for (const auto& each : rules) text.append("\n").append(each.text());
  return plan::from_text(text);
}

/// While it lives, the time of this process's devices stands still, except when it is advanced.
class virtual_time {
 public:
  virtual_time() { ::softverbs_time_stop(); }
  virtual_time(const virtual_time&) = delete;
  virtual_time& operator=(const virtual_time&) = delete;
  ~virtual_time() { ::softverbs_time_resume(); }

  /// Timers that become due run in this thread before it returns.
  void advance(std::chrono::nanoseconds by) {
    ::softverbs_time_advance(static_cast<std::uint64_t>(by.count()));
  }
};

}  // namespace rdmaxx::inline v0::faults
