#include <engine/fault_rule.hpp>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include <engine/fault_plan.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softverbs::engine {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

fault_rule rule(std::string_view text) {
  auto parsed = fault_rule::parse(text);
  if (!parsed) throw std::invalid_argument(parsed.error());
  return *std::move(parsed);
}

std::string problem_of(std::string_view text) {
  const auto parsed = fault_rule::parse(text);
  return parsed ? "" : parsed.error();
}

/// The positions, from 1, of the events that the rule strikes.
std::vector<int> struck(fault_rule& what, int events, const fault_facts& facts = {}) {
  std::vector<int> found;
  for (int i = 1; i <= events; ++i) {
    if (what.strikes(facts)) found.push_back(i);
  }
  return found;
}

TEST(fault_rule, reads_actions_with_their_values) {
  EXPECT_EQ(rule("delay=20ms").delay(), std::chrono::milliseconds(20));
  EXPECT_EQ(rule("delay=7us").delay(), std::chrono::microseconds(7));
  EXPECT_EQ(rule("complete=REM_ACCESS_ERR").status(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(rule("complete=12").status(), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(rule("fail=ENOMEM call=ibv_reg_mr").error(), ENOMEM);
  EXPECT_EQ(rule("fail=12 call=ibv_reg_mr").error(), 12);
  EXPECT_EQ(rule("reject").reason(), 28);
  EXPECT_EQ(rule("reject=3").reason(), 3);
  const auto outage = rule("freeze at=1s for=500ms");
  EXPECT_EQ(outage.site(), fault_site::moment);
  EXPECT_EQ(outage.at(), std::chrono::seconds(1));
  EXPECT_EQ(outage.duration(), std::chrono::milliseconds(500));
  EXPECT_EQ(rule("port_down op=SEND nth=2").site(), fault_site::operation);
  EXPECT_FALSE(rule("port_down").duration());
}

TEST(fault_rule, says_what_is_wrong) {
  EXPECT_THAT(problem_of(""), HasSubstr("empty"));
  EXPECT_THAT(problem_of("explode"), HasSubstr("\"explode\" is not understood"));
  EXPECT_THAT(problem_of("lose rate=2"), HasSubstr("rate=2"));
  EXPECT_THAT(problem_of("lose nth=0"), HasSubstr("nth=0"));
  EXPECT_THAT(problem_of("lose op=SNED"), HasSubstr("none of SEND, WRITE"));
  EXPECT_THAT(problem_of("complete=REM_ACCESS_ERR op=ACK"), HasSubstr("none of SEND, WRITE"));
  EXPECT_THAT(problem_of("complete=SUCCESS"), HasSubstr("not understood"));
  EXPECT_THAT(problem_of("complete=0"), HasSubstr("not understood"));
  EXPECT_THAT(problem_of("lose cm=HELLO"), HasSubstr("none of REQ"));
  EXPECT_THAT(problem_of("lose cm=REQ op=SEND"), HasSubstr("cm= beside op="));
  EXPECT_THAT(problem_of("fail=ENOMEM"), HasSubstr("needs call="));
  EXPECT_THAT(problem_of("fail=ENOSUCH call=ibv_reg_mr"), HasSubstr("not understood"));
  EXPECT_THAT(problem_of("fail=ENOMEM call=ibv_frobnicate"), HasSubstr("none of ibv_open_device"));
  EXPECT_THAT(problem_of("lose call=ibv_reg_mr"), HasSubstr("call= has no meaning"));
  EXPECT_THAT(problem_of("lose at=1s"), HasSubstr("at= has no meaning"));
  EXPECT_THAT(problem_of("lose for=1s"), HasSubstr("for= has no meaning"));
  EXPECT_THAT(problem_of("freeze at=1s nth=3"), HasSubstr("counting without op="));
  EXPECT_THAT(problem_of("freeze at=1s op=SEND"), HasSubstr("at= has no meaning"));
  EXPECT_THAT(problem_of("reject qp=7"), HasSubstr("queue pair"));
  EXPECT_THAT(problem_of("delay=20"), HasSubstr("not understood"));
  EXPECT_THAT(problem_of("delay=99999999999999999999s"), HasSubstr("not understood"));
  EXPECT_THAT(problem_of("lose per_qp=3"), HasSubstr("not understood"));
}

TEST(fault_rule, counts) {
  auto nth = rule("lose nth=3");
  EXPECT_THAT(struck(nth, 9), ElementsAre(3));
  EXPECT_EQ(nth.hits(), 1U);
  auto every = rule("lose every=3");
  EXPECT_THAT(struck(every, 9), ElementsAre(3, 6, 9));
  auto after = rule("lose after=7");
  EXPECT_THAT(struck(after, 9), ElementsAre(8, 9));
  auto first = rule("lose first=2");
  EXPECT_THAT(struck(first, 9), ElementsAre(1, 2));
  auto window = rule("lose after=2 first=3");
  EXPECT_THAT(struck(window, 9), ElementsAre(3, 4, 5));
}

TEST(fault_rule, counts_only_what_it_is_about) {
  auto acks = rule("lose op=ACK nth=2");
  EXPECT_THAT(struck(acks, 5, {.operation = "SEND"}), IsEmpty());
  EXPECT_THAT(struck(acks, 5, {.operation = "ACK"}), ElementsAre(2));
  auto one = rule("lose qp=0x11");
  EXPECT_THAT(struck(one, 2, {.qpn = 0x12}), IsEmpty());
  EXPECT_THAT(struck(one, 2, {.qpn = 0x11}), ElementsAre(1, 2));
  auto second = rule("lose nth_qp=2");
  EXPECT_THAT(struck(second, 1, {.qpn = 7, .qp_order = 1}), IsEmpty());
  EXPECT_THAT(struck(second, 1, {.qpn = 8, .qp_order = 2}), ElementsAre(1));
  auto each = rule("break nth=2 per_qp");
  EXPECT_THAT(struck(each, 3, {.qpn = 1}), ElementsAre(2));
  EXPECT_THAT(struck(each, 3, {.qpn = 2}), ElementsAre(2));
}

TEST(fault_rule, leaves_chance_to_its_seed) {
  auto one = rule("lose rate=0.3");
  auto same = rule("lose rate=0.3");
  auto other = rule("lose rate=0.3");
  one.seed(7);
  same.seed(7);
  other.seed(8);
  const auto found = struck(one, 1000);
  EXPECT_EQ(found, struck(same, 1000));
  EXPECT_NE(found, struck(other, 1000));
  EXPECT_NEAR(static_cast<double>(found.size()), 300, 60);
}

TEST(fault_plan, takes_rules_from_lines_semicolons_and_the_short_form) {
  fault_plan plan;
  EXPECT_THAT(
      plan.replace("# nothing\nlose nth=1; delay=1ms  # late\n\nseed=3\nloss=0.5,corrupt=0.5"),
      IsEmpty());
  EXPECT_TRUE(plan.is_active(fault_site::packet));
  EXPECT_FALSE(plan.is_active(fault_site::operation));
  EXPECT_THAT(plan.replace(""), IsEmpty());
  EXPECT_FALSE(plan.is_active(fault_site::packet));
}

TEST(fault_plan, stays_as_it_was_if_a_rule_is_wrong) {
  fault_plan plan;
  ASSERT_THAT(plan.replace("lose"), IsEmpty());
  EXPECT_THAT(plan.replace("delay=1ms; explode; seed=x; lose nth=0"),
              ElementsAre(HasSubstr("explode"), HasSubstr("seed=x"), HasSubstr("nth=0")));
  EXPECT_TRUE(plan.is_active(fault_site::packet));
  EXPECT_EQ(plan.on_packet({}, {}, {}).what, fault_rule::action::lose);
}

TEST(fault_plan, lets_the_first_rule_that_strikes_decide) {
  fault_plan plan;
  ASSERT_THAT(plan.replace("fail=ENOMEM call=ibv_reg_mr nth=2; fail=EPERM call=ibv_reg_mr"),
              IsEmpty());
  EXPECT_EQ(plan.on_call("ibv_reg_mr"), EPERM);
  EXPECT_EQ(plan.on_call("ibv_reg_mr"), ENOMEM);
  EXPECT_EQ(plan.on_call("ibv_alloc_pd"), 0);
  EXPECT_EQ(plan.hits(0), 1U);
  EXPECT_EQ(plan.hits(1), 1U);
  EXPECT_EQ(plan.hits(2), 0U);
}

}  // namespace

}  // namespace softverbs::engine
