// polling_phase: how long a call polls before it sleeps, and when it gives way meanwhile.

#include "stream/polling_phase.hpp"

#include <chrono>

#include <gtest/gtest.h>

namespace rdmaxx {

namespace {

using namespace std::chrono_literals;
using detail::polling_phase;
using step = polling_phase::step;

constexpr polling_phase::clock::time_point begin{100s};

TEST(polling_phase, of_no_length_is_over_at_once) {
  polling_phase none(begin, 0us, true);
  EXPECT_EQ(none.next(begin), step::over);
  polling_phase negative(begin, -5us, false);  // of a deadline that has passed
  EXPECT_EQ(negative.next(begin), step::over);
}

TEST(polling_phase, that_keeps_the_processor_only_polls) {
  polling_phase alone(begin, 100us, false);
  EXPECT_EQ(alone.next(begin), step::poll);
  EXPECT_EQ(alone.next(begin + 99us), step::poll);
  EXPECT_EQ(alone.next(begin + 100us), step::over);
}

TEST(polling_phase, yields_repeatedly_but_not_at_once) {
  constexpr auto every = polling_phase::way_every;
  polling_phase polite(begin, 100us, true);
  EXPECT_EQ(polite.next(begin), step::poll);
  EXPECT_EQ(polite.next(begin + every - 1us), step::poll);
  EXPECT_EQ(polite.next(begin + every), step::give_way);
  EXPECT_EQ(polite.next(begin + every + 1us), step::poll);
  EXPECT_EQ(polite.next(begin + 2 * every - 1us), step::poll);
  EXPECT_EQ(polite.next(begin + 2 * every), step::give_way);
  EXPECT_EQ(polite.next(begin + 100us), step::over);
}

TEST(polling_phase, counts_from_when_it_runs_again) {
  constexpr auto every = polling_phase::way_every;
  polling_phase polite(begin, 1s, true);
  EXPECT_EQ(polite.next(begin + 3ms), step::give_way);  // others have had the processor until then
  EXPECT_EQ(polite.next(begin + 3ms + every - 1us), step::poll);
  EXPECT_EQ(polite.next(begin + 3ms + every), step::give_way);
}

TEST(polling_phase, shorter_than_the_yield_interval_never_yields) {
  polling_phase brief(begin, polling_phase::way_every / 2, true);
  EXPECT_EQ(brief.next(begin), step::poll);
  EXPECT_EQ(brief.next(begin + polling_phase::way_every / 2), step::over);
}

TEST(polling_phase, without_an_end_goes_on) {
  polling_phase endless(begin, polling_phase::clock::duration::max(), false);
  EXPECT_EQ(endless.next(begin + 24h), step::poll);
}

}  // namespace

}  // namespace rdmaxx
