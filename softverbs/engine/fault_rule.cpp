#include <engine/fault_rule.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace softverbs::engine {
namespace {

using action = fault_rule::action;

constexpr std::array<std::pair<std::string_view, action>, 11> actions{{
    {"lose", action::lose},
    {"delay", action::delay},
    {"duplicate", action::duplicate},
    {"reorder", action::reorder},
    {"corrupt", action::corrupt},
    {"complete", action::complete},
    {"break", action::break_queue_pair},
    {"fail", action::fail},
    {"reject", action::reject},
    {"port_down", action::port_down},
    {"freeze", action::freeze},
}};

constexpr std::array<std::pair<std::string_view, ibv_wc_status>, 23> statuses{{
    {"LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR},
    {"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
    {"LOC_EEC_OP_ERR", IBV_WC_LOC_EEC_OP_ERR},
    {"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},
    {"WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR},
    {"MW_BIND_ERR", IBV_WC_MW_BIND_ERR},
    {"BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR},
    {"LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR},
    {"REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR},
    {"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},
    {"REM_OP_ERR", IBV_WC_REM_OP_ERR},
    {"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},
    {"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
    {"LOC_RDD_VIOL_ERR", IBV_WC_LOC_RDD_VIOL_ERR},
    {"REM_INV_RD_REQ_ERR", IBV_WC_REM_INV_RD_REQ_ERR},
    {"REM_ABORT_ERR", IBV_WC_REM_ABORT_ERR},
    {"INV_EECN_ERR", IBV_WC_INV_EECN_ERR},
    {"FATAL_ERR", IBV_WC_FATAL_ERR},
    {"RESP_TIMEOUT_ERR", IBV_WC_RESP_TIMEOUT_ERR},
    {"GENERAL_ERR", IBV_WC_GENERAL_ERR},
    {"INV_EEC_STATE_ERR", IBV_WC_INV_EEC_STATE_ERR},
    {"TM_ERR", IBV_WC_TM_ERR},
    {"TM_RNDV_INCOMPLETE", IBV_WC_TM_RNDV_INCOMPLETE},
}};

// What `op=` can name, for packets and for operations.
constexpr auto packet_words = std::to_array<std::string_view>(
    {"SEND", "WRITE", "READ", "READ_RESPONSE", "ATOMIC", "ATOMIC_ACK", "ACK", "NAK", "RNR"});
constexpr auto operation_words = std::to_array<std::string_view>(
    {"SEND", "WRITE", "READ", "ATOMIC", "BIND", "INVALIDATE", "RECV"});
constexpr auto message_words = std::to_array<std::string_view>(
    {"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"});
constexpr auto function_words = std::to_array<std::string_view>({
    "ibv_open_device",     "ibv_alloc_pd",   "ibv_reg_mr",
    "ibv_rereg_mr",        "ibv_alloc_mw",   "ibv_create_comp_channel",
    "ibv_create_cq",       "ibv_resize_cq",  "ibv_create_srq",
    "ibv_create_qp",       "ibv_modify_qp",  "ibv_create_ah",
    "ibv_attach_mcast",    "ibv_post_send",  "ibv_post_recv",
    "ibv_post_srq_recv",   "ibv_open_xrcd",  "rdma_create_event_channel",
    "rdma_create_id",      "rdma_bind_addr", "rdma_resolve_addr",
    "rdma_resolve_route",  "rdma_create_qp", "rdma_connect",
    "rdma_listen",         "rdma_accept",    "rdma_disconnect",
    "rdma_join_multicast",
});

template <class Table>
auto find(const Table& table, std::string_view name)
    -> std::optional<typename Table::value_type::second_type> {
  const auto found = std::ranges::find(table, name, &Table::value_type::first);
  if (found == table.end()) return std::nullopt;
  return found->second;
}

/// The whole text as a number, or nothing; 0x… is hexadecimal.
template <class Number>
bool parse_number(std::string_view text, Number& out) {
  const auto* const end = std::to_address(text.end());
  std::from_chars_result parsed{};
  if constexpr (std::is_floating_point_v<Number>) {
    parsed = std::from_chars(std::to_address(text.begin()), end, out);
  } else {
    const bool hexadecimal = text.starts_with("0x");
    if (hexadecimal) text.remove_prefix(2);
    parsed = std::from_chars(std::to_address(text.begin()), end, out, hexadecimal ? 16 : 10);
  }
  return parsed.ec == std::errc{} && parsed.ptr == end;
}

/// 20ms, 5us, 3s, 2m, 1h
bool parse_time(std::string_view text, std::chrono::nanoseconds& out) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 6> units{{
      {"ns", 1},
      {"us", 1'000},
      {"ms", 1'000'000},
      {"s", 1'000'000'000},
      {"m", 60'000'000'000},
      {"h", 3'600'000'000'000},
  }};
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24 * 365);
  for (const auto& [unit, nanoseconds] : units) {
    if (!text.ends_with(unit)) continue;
    std::int64_t count = 0;
    if (!parse_number(text.substr(0, text.size() - unit.size()), count)) continue;
    if (count < 0 || count > longest.count() / nanoseconds) return false;
    out = std::chrono::nanoseconds(count * nanoseconds);
    return true;
  }
  return false;
}

bool parse_status(std::string_view text, ibv_wc_status& out) {
  if (const auto named = find(statuses, text)) {
    out = *named;
    return true;
  }
  unsigned number = 0;
  if (!parse_number(text, number) || number == IBV_WC_SUCCESS || number > IBV_WC_TM_RNDV_INCOMPLETE)
    return false;
  out = static_cast<ibv_wc_status>(number);
  return true;
}

bool parse_error(std::string_view text, int& out) {
  for (int number = 1; number < 134; ++number) {
    const char* const name = ::strerrorname_np(number);
    if (name != nullptr && text == name) {
      out = number;
      return true;
    }
  }
  return parse_number(text, out) && out > 0;
}

bool assign_word(std::string& out, std::string_view value) {
  out = value;
  return !value.empty();
}

template <class Words>
std::string unless_among(const Words& words, std::string_view name, const std::string& value) {
  if (value.empty() || std::ranges::find(words, value) != words.end()) return {};
  return fmt::format("{}={} is none of {}", name, value, fmt::join(words, ", "));
}

}  // namespace

fault_site fault_rule::site() const noexcept {
  switch (what_) {
    case action::lose:
    case action::delay:
    case action::duplicate:
    case action::reorder:
    case action::corrupt:
      return fault_site::packet;
    case action::complete:
    case action::break_queue_pair:
      return fault_site::operation;
    case action::fail:
      return fault_site::call;
    case action::reject:
      return fault_site::request;
    case action::port_down:
    case action::freeze:
      return operation_.empty() ? fault_site::moment : fault_site::operation;
  }
  return fault_site::packet;
}

bool fault_rule::set_action(std::string_view name, std::string_view value) {
  const auto found = find(actions, name);
  if (!found) return false;
  what_ = *found;
  switch (what_) {
    case action::delay:
      return parse_time(value, delay_);
    case action::complete:
      return parse_status(value, status_);
    case action::fail:
      return parse_error(value, number_);
    case action::reject:
      number_ = 28;
      return value.empty() || (parse_number(value, number_) && number_ > 0 && number_ < 65536);
    default:
      return value.empty();
  }
}

bool fault_rule::set_condition(std::string_view name, std::string_view value) {
  if (name == "op") return assign_word(operation_, value);
  if (name == "cm") return assign_word(message_, value);
  if (name == "call") return assign_word(function_, value);
  if (name == "qp") return parse_number(value, qpn_.emplace());
  if (name == "nth_qp") return parse_number(value, qp_order_.emplace()) && *qp_order_ > 0;
  if (name == "rate") return parse_number(value, rate_) && rate_ >= 0 && rate_ <= 1;
  if (name == "nth") return parse_number(value, nth_) && nth_ > 0;
  if (name == "every") return parse_number(value, every_) && every_ > 0;
  if (name == "after") return parse_number(value, after_);
  if (name == "first") return parse_number(value, first_) && first_ > 0;
  if (name == "per_qp") return value.empty() && (per_qp_ = true);
  if (name == "at") return parse_time(value, at_.emplace());
  if (name == "for") return parse_time(value, for_.emplace());
  return false;
}

std::string fault_rule::contradiction() const {
  const auto where = site();
  const bool is_outage = what_ == action::port_down || what_ == action::freeze;
  const bool about_queue_pairs = where == fault_site::packet || where == fault_site::operation;
  const auto misplaced = [](bool is_set, bool has_meaning, std::string_view word) {
    return is_set && !has_meaning ? fmt::format("{} has no meaning in this rule", word)
                                  : std::string();
  };
  const bool counts = nth_ != 0 || every_ != 0 || after_ != 0 || first_ != 0 || rate_ < 1;
  for (auto problem : {
           misplaced(!operation_.empty(), about_queue_pairs, "op="),
           misplaced(!message_.empty(), where == fault_site::packet, "cm="),
           misplaced(!message_.empty(), operation_.empty(), "cm= beside op="),
           misplaced(!function_.empty(), where == fault_site::call, "call="),
           misplaced(qpn_ || qp_order_ || per_qp_, about_queue_pairs, "the queue pair"),
           misplaced(at_.has_value(), where == fault_site::moment, "at="),
           misplaced(for_.has_value(), is_outage, "for="),
           misplaced(counts, where != fault_site::moment, "counting without op="),
           where == fault_site::packet ? unless_among(packet_words, "op", operation_)
                                       : unless_among(operation_words, "op", operation_),
           unless_among(message_words, "cm", message_),
           unless_among(function_words, "call", function_),
       }) {
    if (!problem.empty()) return problem;
  }
  if (where == fault_site::call && function_.empty())
    return fmt::format("fail= needs call=, one of {}", fmt::join(function_words, ", "));
  return {};
}

std::expected<fault_rule, std::string> fault_rule::parse(std::string_view text) {
  fault_rule rule;
  bool first = true;
  while (!text.empty()) {
    text.remove_prefix(std::min(text.find_first_not_of(" 	"), text.size()));
    const auto word = text.substr(0, text.find_first_of(" 	"));
    text.remove_prefix(word.size());
    if (word.empty()) continue;
    const auto equals = std::min(word.find('='), word.size());
    const auto name = word.substr(0, equals);
    const auto value = word.substr(std::min(equals + 1, word.size()));
    const bool is_action = std::exchange(first, false);
    if (is_action ? !rule.set_action(name, value) : !rule.set_condition(name, value))
      return std::unexpected(fmt::format("\"{}\" is not understood", word));
  }
  if (first) return std::unexpected("it is empty");
  if (auto problem = rule.contradiction(); !problem.empty())
    return std::unexpected(std::move(problem));
  return rule;
}

bool fault_rule::matches(const fault_facts& facts) const {
  return (operation_.empty() || operation_ == facts.operation) &&
         (message_.empty() || message_ == facts.message) &&
         (function_.empty() || function_ == facts.function) && (!qpn_ || *qpn_ == facts.qpn) &&
         (!qp_order_ || *qp_order_ == facts.qp_order);
}

bool fault_rule::strikes(const fault_facts& facts) {
  if (!matches(facts)) return false;
  const auto seen = ++seen_[per_qp_ ? facts.qpn : 0];
  if (nth_ != 0 && seen != nth_) return false;
  if (every_ != 0 && seen % every_ != 0) return false;
  if (seen <= after_) return false;
  if (first_ != 0 && seen > after_ + first_) return false;
  if (rate_ < 1 && std::uniform_real_distribution<double>(0, 1)(random_) >= rate_) return false;
  ++hits_;
  return true;
}

}  // namespace softverbs::engine
