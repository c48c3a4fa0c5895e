#include <engine/fault_plan.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include <base/log.hpp>
#include <base/settings.hpp>
#include <engine/per_process.hpp>
#include <fmt/format.h>
#include <wire/cm_message.hpp>

namespace softverbs::engine {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> shorthands{
    {{"loss", "lose"}, {"duplicate", "duplicate"}, {"reorder", "reorder"}, {"corrupt", "corrupt"}}};

constexpr std::size_t most_replaced_plans = 64;

/// Messages of the connection manager have their own names.
std::string_view operation_of(const wire::headers& header) {
  using wire::operation;
  if (header.destination_qpn == wire::management_qpn) return {};
  switch (header.op) {
    case operation::write_first:
    case operation::write_middle:
    case operation::write_last:
    case operation::write_last_immediate:
    case operation::write_only:
    case operation::write_only_immediate:
      return "WRITE";
    case operation::read_request:
      return "READ";
    case operation::read_response_first:
    case operation::read_response_middle:
    case operation::read_response_last:
    case operation::read_response_only:
      return "READ_RESPONSE";
    case operation::acknowledge:
      if (wire::is_rnr(header.syndrome)) return "RNR";
      return wire::is_nak(header.syndrome) ? "NAK" : "ACK";
    case operation::atomic_acknowledge:
      return "ATOMIC_ACK";
    case operation::compare_swap:
    case operation::fetch_add:
      return "ATOMIC";
    default:
      return "SEND";
  }
}

std::string_view message_of(const wire::headers& header, std::span<const std::byte> payload) {
  if (header.destination_qpn != wire::management_qpn) return {};
  const auto message = wire::decode_cm(payload);
  if (!message) return {};
  switch (message->kind) {
    case wire::cm_kind::req:
      return "REQ";
    case wire::cm_kind::mra:
      return "MRA";
    case wire::cm_kind::rej:
      return "REJ";
    case wire::cm_kind::rep:
      return "REP";
    case wire::cm_kind::rtu:
      return "RTU";
    case wire::cm_kind::dreq:
      return "DREQ";
    case wire::cm_kind::drep:
      return "DREP";
    case wire::cm_kind::sidr_req:
      return "SIDR_REQ";
    case wire::cm_kind::sidr_rep:
      return "SIDR_REP";
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  const auto begin = std::min(text.find_first_not_of(" \t\r"), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(" \t\r") + 1);
}

/// The parts between separators.
std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto part = text.substr(0, text.find_first_of(separators));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    parts.push_back(trimmed(part));
  }
  return parts;
}

/// "loss=0.01" as a rule; empty if it is none of the short forms.
std::string long_form(std::string_view word) {
  const auto equals = std::min(word.find('='), word.size());
  for (const auto& [name, rule] : shorthands) {
    if (word.substr(0, equals) == name && equals < word.size())
      return fmt::format("{} rate={}", rule, word.substr(equals + 1));
  }
  return {};
}

}  // namespace

std::vector<std::string> fault_plan::replace(std::string_view text) {
  std::vector<fault_rule> rules;
  std::vector<std::string> problems;
  std::uint64_t seed = 1;
  const auto add = [&](std::string_view rule) {
    auto parsed = fault_rule::parse(rule);
    if (parsed) {
      rules.push_back(*std::move(parsed));
    } else {
      problems.push_back(fmt::format("\"{}\": {}", rule, parsed.error()));
    }
  };
  for (const auto line : split(text, ";\n")) {
    const auto rule = trimmed(line.substr(0, line.find('#')));
    if (rule.empty()) continue;
    const bool is_short = rule.find(' ') == std::string_view::npos;
    for (const auto word : is_short ? split(rule, ",") : std::vector{rule}) {
      if (word.starts_with("seed=")) {
        const auto digits = word.substr(5);
        const auto* const end = std::to_address(digits.end());
        if (std::from_chars(std::to_address(digits.begin()), end, seed).ptr != end ||
            digits.empty())
          problems.push_back(fmt::format("\"{}\" is no number", word));
      } else if (const auto whole = long_form(word); !whole.empty()) {
        add(whole);
      } else {
        add(word);
      }
    }
  }
  if (!problems.empty()) return problems;
  is_understood_ = true;
  unsigned active = 0;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    rules[i].seed(seed * 1'000'003 + i);  // rules do not disturb each other's chance
    active |= 1U << static_cast<unsigned>(rules[i].site());
    // A port that is down loses every packet.
    if (rules[i].what() == fault_rule::action::port_down)
      active |= 1U << static_cast<unsigned>(fault_site::packet);
  }
  const std::lock_guard lock(mutex_);
  replaced_plan before{.edition = edition_, .hits = {}};
  for (const auto& rule : rules_) before.hits.push_back(rule.hits());
  replaced_.push_back(std::move(before));
  if (replaced_.size() > most_replaced_plans) replaced_.pop_front();
  rules_ = std::move(rules);
  began_ = clock::now();
  active_ = active;
  ++edition_;
  return {};
}

std::uint64_t fault_plan::hits(unsigned edition, std::size_t rule) const {
  const std::lock_guard lock(mutex_);
  if (edition == edition_) return rule < rules_.size() ? rules_[rule].hits() : 0;
  const auto found = std::ranges::find(replaced_, edition, &replaced_plan::edition);
  return found != replaced_.end() && rule < found->hits.size() ? found->hits[rule] : 0;
}

template <class Then>
void fault_plan::first_that_strikes(fault_site site, const fault_facts& facts, Then then) {
  const std::lock_guard lock(mutex_);
  for (auto& rule : rules_) {
    if (rule.site() != site || !rule.strikes(facts)) continue;
    if (rule.hits() == 1)
      log(log_level::info, "fault {} of the plan strikes", &rule - rules_.data() + 1);
    then(rule);
    return;
  }
}

fault_plan::packet_fate fault_plan::on_packet(const queue_pair_name& from,
                                              const wire::headers& header,
                                              std::span<const std::byte> payload) {
  packet_fate fate;
  const fault_facts facts{.operation = operation_of(header),
                          .message = message_of(header, payload),
                          .qpn = from.qpn,
                          .qp_order = from.order};
  first_that_strikes(fault_site::packet, facts, [&](fault_rule& rule) {
    fate = {.what = rule.what(), .delay = rule.delay(), .random = rule.random()};
  });
  return fate;
}

fault_plan::operation_fate fault_plan::on_operation(const queue_pair_name& of,
                                                    std::string_view operation) {
  operation_fate fate;
  first_that_strikes(fault_site::operation,
                     {.operation = operation, .qpn = of.qpn, .qp_order = of.order},
                     [&](const fault_rule& rule) {
                       fate = {.what = rule.what(),
                               .status = rule.status(),
                               .duration = rule.duration(),
                               .edition = edition_};
                     });
  return fate;
}

int fault_plan::on_call(std::string_view function) {
  int error = 0;
  first_that_strikes(fault_site::call, {.function = function},
                     [&](const fault_rule& rule) { error = rule.error(); });
  return error;
}

std::optional<std::uint16_t> fault_plan::on_request() {
  std::optional<std::uint16_t> reason;
  first_that_strikes(fault_site::request, {},
                     [&](const fault_rule& rule) { reason = rule.reason(); });
  return reason;
}

std::vector<fault_plan::outage> fault_plan::outages() const {
  const std::lock_guard lock(mutex_);
  std::vector<outage> all;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const auto& rule = rules_[i];
    if (rule.site() != fault_site::moment) continue;
    all.push_back({.rule = i,
                   .what = rule.what(),
                   .begins = began_ + rule.at(),
                   .duration = rule.duration()});
  }
  return all;
}

void fault_plan::has_begun(const outage& which) {
  const std::lock_guard lock(mutex_);
  if (which.rule < rules_.size()) rules_[which.rule].moment_has_come();
}

fault_plan::fault_plan(const std::string& setting) {
  std::vector<std::string> problems;
  auto text = setting;
  if (text.starts_with('@')) {
    std::ifstream file(text.substr(1));
    if (!file) problems.push_back(text.substr(1) + " cannot be read");
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::ranges::copy(replace(text), std::back_inserter(problems));
  // A test without its faults would prove nothing.
  is_understood_ = problems.empty();
  for (const auto& problem : problems)
    log(log_level::error, "SOFTVERBS_FAULTS: {}; there are no soft devices", problem);
}

namespace {

/// A child of a fork begins with the plan of its environment.
struct plan_of_process : fault_plan {
  plan_of_process() : fault_plan(settings::get().faults) {}
};

}  // namespace

fault_plan& fault_plan::of_process() {
  static per_process<plan_of_process> all;
  return all.get();
}

}  // namespace softverbs::engine
