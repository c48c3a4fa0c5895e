// Two connections over a link that loses, delays, reorders and duplicates, in virtual time:
// whatever happens, both ends come to rest, each user learns of each thing once, and both learn the
// same.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cm/connection.hpp>
#include <gtest/gtest.h>

namespace softverbs::cm {
namespace {

using namespace std::chrono_literals;
using engine::time_point;
using wire::cm_kind;
using state = connection::state;

constexpr std::uint32_t active_id = 0x11110001;
constexpr std::uint32_t passive_id = 0x22220002;
constexpr std::array<std::uint32_t, 2> comm_ids{active_id, passive_id};

/// What the users do, and what the link does.
struct scenario {
  double loss = 0;
  double duplication = 0;
  engine::clock::duration longest_delay{};
  /// Between one event and the next. Three such times fall into the life of one REP, which is
  /// repeated more often than that.
  int most_losses = 0;
  time_point link_is_cut = engine::never;  ///< nothing gets through any more
  bool passive_accepts = true;
  bool active_establishes = true;          ///< else it rejects the reply
  bool disconnects = true;                 ///< one of them or both, after a while
  std::optional<std::size_t> destroyed{};  ///< which end is destroyed at a random time
};

class pair_on_a_link {
 public:
  pair_on_a_link(std::uint64_t seed, const scenario& what) : random_(seed), what_(what) {
    ends_[0].exists = true;
    wire::cm_message req{.kind = cm_kind::req, .transaction = seed, .local_id = active_id};
    req.ack_timeout = 19;
    req.qpn = 1;
    carry_out(0, ends_[0].machine.connect(req, now_));
    if (what_.destroyed) later(between(0ms, 90s), [this] { destroy(*what_.destroyed); });
  }

  /// Until nothing is left to happen. False if that does not come about.
  bool run() {
    for (int steps = 0; steps < 20'000; ++steps) {
      const auto next = next_moment();
      if (next == engine::never) return true;
      if (next > time_point(24h)) return false;
      now_ = next;
      if (!actions_.empty() && actions_.begin()->first <= now_) {
        const auto action = std::move(actions_.begin()->second);
        actions_.erase(actions_.begin());
        action();
        continue;
      }
      for (const std::size_t each : {0U, 1U}) {
        auto& machine = ends_[each].machine;
        if (machine.due() <= now_) carry_out(each, machine.on_timer(now_));
      }
    }
    return false;
  }

  /// What the user of an end was told, in order; "established" also for the active side.
  [[nodiscard]] const std::vector<protocol_event>& told(std::size_t which) const {
    return ends_[which].told;
  }
  [[nodiscard]] bool was_told(std::size_t which, protocol_event what) const {
    return std::ranges::find(told(which), what) != told(which).end();
  }
  [[nodiscard]] bool exists(std::size_t which) const { return ends_[which].exists; }
  [[nodiscard]] state state_of(std::size_t which) const {
    return ends_[which].machine.current_state();
  }
  [[nodiscard]] bool was_destroyed(std::size_t which) const { return ends_[which].destroyed; }

 private:
  struct end {
    connection machine;
    bool exists = false;
    bool destroyed = false;
    std::vector<protocol_event> told;
  };

  double chance() { return std::uniform_real_distribution<>(0, 1)(random_); }
  engine::clock::duration between(engine::clock::duration least, engine::clock::duration most) {
    using count = engine::clock::rep;
    return engine::clock::duration(
        std::uniform_int_distribution<count>(least.count(), most.count())(random_));
  }

  template <class Action>
  void later(engine::clock::duration after, Action action) {
    actions_.emplace(now_ + after, std::move(action));
  }

  [[nodiscard]] time_point next_moment() const {
    auto next = actions_.empty() ? engine::never : actions_.begin()->first;
    for (const auto& each : ends_) next = std::min(next, each.machine.due());
    return next;
  }

  void transmit(std::size_t from, const wire::cm_message& message) {
    if (now_ >= what_.link_is_cut) return;
    if (chance() < what_.loss && losses_ < what_.most_losses) {
      ++losses_;
      return;
    }
    do {
      later(between(0ms, what_.longest_delay),
            [this, from, message] { deliver(1 - from, message); });
    } while (chance() < what_.duplication);
  }

  void deliver(std::size_t to, const wire::cm_message& message) {
    auto& receiver = ends_[to];
    if (to == 1 && message.kind == cm_kind::req && !receiver.exists) {
      receiver.exists = true;
      receiver.machine.receive_request(message, passive_id, 7);
      later(between(0ms, 40s), [this] { answer_request(); });
      return;
    }
    const bool is_known = message.kind == cm_kind::req || wire::withdraws_request(message) ||
                          message.remote_id == comm_ids[to];
    if (receiver.exists && !receiver.destroyed && is_known) {
      carry_out(to, receiver.machine.on_message(message, false, now_));
    } else if (const auto answer = wire::answer_without_receiver(message)) {
      transmit(to, *answer);
    }
  }

  void carry_out(std::size_t which, const protocol_step& step) {
    if (step.send) transmit(which, *step.send);
    if (step.notify) tell(which, step.notify->event);
  }

  void tell(std::size_t which, protocol_event what) {
    auto& one = ends_[which];
    one.told.push_back(what);
    losses_ = 0;
    if (what == protocol_event::replied) {
      later(between(0ms, 40s), [this] { answer_reply(); });
    } else if (what == protocol_event::established) {
      is_established(which);
    } else if (what == protocol_event::disconnected && chance() < 0.8) {
      later(between(0ms, 5s), [this, which] { disconnect(which); });
    }
  }

  void is_established(std::size_t which) {
    if (what_.disconnects && chance() < 0.7)
      later(between(0ms, 10s), [this, which] { disconnect(which); });
    // So that one of them does it in the end.
    if (what_.disconnects && which == 0)
      later(between(100s, 110s), [this, which] { disconnect(which); });
    if (which == 0 && chance() < 0.3 && now_ < what_.link_is_cut)
      later(between(0ms, 2s), [this] {
        if (state_of(0) == state::established && !was_destroyed(1))
          carry_out(1, ends_[1].machine.data_arrived());
      });
  }

  // --- users ---
  void answer_request() {
    auto& machine = ends_[1].machine;
    if (ends_[1].destroyed) return;
    wire::cm_message terms;
    terms.qpn = 2;
    carry_out(1, what_.passive_accepts ? machine.accept(terms, now_) : machine.reject(terms));
  }
  void answer_reply() {
    auto& machine = ends_[0].machine;
    if (ends_[0].destroyed) return;
    if (!what_.active_establishes) {
      carry_out(0, machine.reject({}));
      return;
    }
    const auto step = machine.establish();
    if (step.error != 0) return;
    carry_out(0, step);
    tell(0, protocol_event::established);
  }
  void disconnect(std::size_t which) {
    if (ends_[which].destroyed) return;
    carry_out(which, ends_[which].machine.disconnect(now_));
  }
  void destroy(std::size_t which) {
    if (!ends_[which].exists) return;
    carry_out(which, ends_[which].machine.abandon());
    ends_[which].destroyed = true;
  }

  std::mt19937_64 random_;
  scenario what_;
  int losses_ = 0;
  time_point now_{1h};
  std::multimap<time_point, std::function<void()>> actions_;
  std::array<end, 2> ends_;
};

bool is_an_end(protocol_event what) {
  return what == protocol_event::rejected || what == protocol_event::unreachable ||
         what == protocol_event::disconnected;
}

/// Nothing is told twice, nothing after the end but the end of timewait.
void expect_told_once(const pair_on_a_link& pair) {
  for (const std::size_t each : {0U, 1U}) {
    const auto& told = pair.told(each);
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(std::ranges::count(told, told[i]), 1);
      const bool after_end =
          std::any_of(told.begin(), told.begin() + static_cast<long>(i), is_an_end);
      EXPECT_EQ(after_end, told[i] == protocol_event::timewait_exit);
    }
  }
}

scenario drawn_from(std::mt19937_64& random) {
  const auto chance = [&] { return std::uniform_real_distribution<>(0, 1)(random); };
  return {.loss = chance() * 0.7,
          .duplication = chance() * 0.5,
          .longest_delay = engine::clock::duration(static_cast<std::int64_t>(chance() * 3e9)),
          .most_losses = 4,
          .passive_accepts = chance() < 0.9,
          .active_establishes = chance() < 0.9,
          .disconnects = chance() < 0.7};
}

constexpr std::uint64_t seeds = 3000;

TEST(connection_pair, both_ends_agree_over_a_link_that_loses_reorders_and_duplicates) {
  int established = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto what = drawn_from(random);
    pair_on_a_link pair(seed, what);
    ASSERT_TRUE(pair.run());
    expect_told_once(pair);
    const bool active = pair.was_told(0, protocol_event::established);
    const bool passive = pair.was_told(1, protocol_event::established);
    const bool agreed = what.passive_accepts && what.active_establishes;
    EXPECT_EQ(active, agreed);
    // The passive side may learn of the end first, if the RTU was overtaken or lost.
    EXPECT_TRUE(!active || passive || pair.was_told(1, protocol_event::disconnected));
    EXPECT_TRUE(!passive || active);
    if (agreed && what.disconnects) {
      for (const std::size_t each : {0U, 1U}) {
        EXPECT_TRUE(pair.was_told(each, protocol_event::disconnected));
      }
    }
    if (agreed && !what.disconnects) {
      EXPECT_TRUE(passive);
      for (const std::size_t each : {0U, 1U}) EXPECT_EQ(pair.state_of(each), state::established);
    }
    if (!what.passive_accepts) {
      EXPECT_TRUE(pair.was_told(0, protocol_event::rejected));
      EXPECT_TRUE(pair.told(1).empty());
    } else if (!what.active_establishes) {
      EXPECT_TRUE(std::ranges::any_of(pair.told(1), is_an_end));
    }
    established += active ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(established, static_cast<int>(seeds) / 2);
}

TEST(connection_pair, both_ends_learn_of_a_link_that_is_cut) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    auto what = drawn_from(random);
    what.passive_accepts = what.active_establishes = what.disconnects = true;
    what.most_losses = 1000;
    what.link_is_cut = time_point(1h + std::chrono::milliseconds(random() % 120'000));
    pair_on_a_link pair(seed, what);
    ASSERT_TRUE(pair.run());
    expect_told_once(pair);
    EXPECT_TRUE(std::ranges::any_of(pair.told(0), is_an_end));
    // A passive side that was established waits for its user, or for data that does not arrive.
    EXPECT_TRUE(!pair.exists(1) || pair.state_of(1) == state::established ||
                std::ranges::any_of(pair.told(1), is_an_end));
    if (HasFailure()) return;
  }
}

TEST(connection_pair, nothing_waits_for_ever_for_an_end_that_is_destroyed) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    auto what = drawn_from(random);
    what.destroyed = seed % 2;
    what.most_losses = 1000;
    pair_on_a_link pair(seed, what);
    ASSERT_TRUE(pair.run());
    expect_told_once(pair);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace softverbs::cm
