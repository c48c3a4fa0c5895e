import argparse
import unittest

from rdmaxx_bench import __main__ as bench
from rdmaxx_bench import report, rounds, sides
from rdmaxx_bench.benchmark import Benchmark
from rdmaxx_bench.goals import Above, AtMostMore, Below, NoGoal, RatioAtLeast, RatioAtMost
from rdmaxx_bench.registry import ALL
from rdmaxx_bench.runners import Numbers, Unmeasured, parse_costs, parse_pair

ANNOTATED = """\
Ir
--------------------------------------------------------------------------------
1,234,567 (100.0%)  PROGRAM TOTALS

Ir                  file:function
--------------------------------------------------------------------------------
   25,000 ( 2.03%)  /a/b.cpp:cpp_poll_1 [/build/verbs_instructions]
   24,000 ( 1.94%)  ???:c_poll_1 [/build/verbs_instructions]
    1,000 ( 0.08%)  /a/b.cpp:c_poll_1'2 [/build/verbs_instructions]
"""


PERFTEST_LATENCY = """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
 8       5000          0.88           6104.25      1.31     \t       12.10       \t184.49
"""
PERFTEST_BANDWIDTH = """\
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      1000             5766.86            1000.00 \t\t   0.010260
"""
UCX = """\
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
20000,7.824,36.734,36.500,1701.40,1000.00,27222,27222
"""
FI_PINGPONG = """\
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64k     200     =200     25m         0.09s    303.51     215.93       0.00
"""


class Sides(unittest.TestCase):
    def test_outputs_are_read(self):
        self.assertEqual(sides.parse_perftest(PERFTEST_LATENCY, 8)["median"], 1.31)
        self.assertEqual(sides.parse_perftest(PERFTEST_LATENCY, 8)["mean"], 12.10)
        self.assertAlmostEqual(sides.parse_perftest(PERFTEST_BANDWIDTH, 65536)["bandwidth"], 1.048576)
        self.assertEqual(sides.parse_ucx(UCX)["median"], 7.824)
        self.assertAlmostEqual(sides.parse_ucx(UCX)["bandwidth"], 1.048576)
        self.assertAlmostEqual(sides.parse_fi_pingpong(FI_PINGPONG, 65536)["bandwidth"], 0.3035, places=3)

    def test_output_without_result_is_a_problem(self):
        for parse in (sides.parse_ucx, sides.parse_json):
            with self.assertRaises(Unmeasured):
                parse("")
        for parse in (sides.parse_perftest, sides.parse_fi_pingpong):
            with self.assertRaises(Unmeasured):
                parse("", 8)


class Runners(unittest.TestCase):
    def test_instruction_counts_are_read_by_function(self):
        self.assertEqual(parse_costs(ANNOTATED), {"cpp_poll_1": 25000, "c_poll_1": 24000})

    def test_pairs_are_the_last_line(self):
        self.assertEqual(parse_pair('warming up\n{"ours": 2, "peer": 4}\n'), Numbers(2, 4))
        with self.assertRaises(Unmeasured):
            parse_pair("nothing")


class Goals(unittest.TestCase):
    def test_goals_can_be_met_and_missed(self):
        self.assertTrue(AtMostMore(2).met(26, 24))
        self.assertFalse(AtMostMore(2).met(26.5, 24))
        self.assertFalse(RatioAtLeast(1.0).met(9, 10))
        self.assertFalse(RatioAtMost(1.1).met(12, 10))
        self.assertTrue(Below().met(9, 10))
        self.assertFalse(Below().met(10, 10))
        self.assertFalse(Above().met(10, 10))

    def test_a_peer_that_failed_is_printed(self):
        benchmark = Benchmark("softverbs/x", "UCX tcp", "µs", NoGoal(), None)
        printed = report.table([report.Measurement(benchmark, Numbers(1.0, None), "it is missing")])
        for expected in ("1.00", "failed: UCX tcp", "not measured", "it is missing"):
            self.assertIn(expected, printed)

    def test_small_numbers_keep_their_digits(self):
        benchmark = Benchmark("stream/x", "TCP", "GB/s", NoGoal(), None)
        printed = report.table([report.Measurement(benchmark, Numbers(0.0093, 0.0), "")])
        for expected in ("0.0093", "0.00 TCP"):
            self.assertIn(expected, printed)

    def test_what_was_not_measured_is_not_met(self):
        self.assertFalse(report.Measurement(ALL[0], None, "not built").met)

    def test_names_are_unique(self):
        self.assertEqual(len({benchmark.name for benchmark in ALL}), len(ALL))


class Takes(sides.Side):
    """Gives one value after the other, and notes who was asked."""

    asked: list["Takes"] = []

    def __init__(self, *values: float):
        self._values = list(values)

    def sample(self, logs, timeout):
        Takes.asked.append(self)
        return {"bandwidth": self._values.pop(0)}


class Rounds(unittest.TestCase):
    def measured(self, ours: Takes, peer: Takes, count: int) -> Numbers:
        Takes.asked.clear()
        pair = rounds.SidePair(ours, peer, "bandwidth")
        rounds.SidePair.measured.update(rounds.measure_in_rounds([ours, peer], count, None, timeout=1, budget=60))
        return pair.measure()

    def test_both_sides_take_turns(self):
        ours, peer = Takes(1, 1, 1), Takes(1, 1, 1)
        self.measured(ours, peer, 3)
        self.assertEqual(Takes.asked, [ours, peer] * 3)

    def test_the_ratio_is_that_of_pairs(self):
        """While the machine is slow, it is so for both: the ratio of the medians would be 0.4."""
        numbers = self.measured(Takes(9, 4, 1), Takes(10, 2, 10), 3)
        self.assertEqual((numbers.ours, numbers.peer, numbers.ratio), (4, 10, 0.9))

    def test_the_goal_is_judged_by_the_pairs(self):
        for ratio, expected in ((0.9, False), (1.1, True)):
            benchmark = Benchmark("stream/x", "rsocket", "GB/s", RatioAtLeast(1), None)
            measurement = report.Measurement(benchmark, Numbers(5, 5, ratio=ratio))
            self.assertEqual((measurement.ratio, measurement.met), (ratio, expected))
        benchmark = Benchmark("stream/x", "rsocket", "ms/s", AtMostMore(2), None)
        self.assertTrue(report.Measurement(benchmark, Numbers(2, 1, ratio=5)).met)

    def test_of_nothing_there_is_no_ratio(self):
        self.assertIsNone(self.measured(Takes(1), Takes(0), 1).ratio)

    def test_streams_are_compared_in_nine_pairs(self):
        counts = {benchmark.runner.rounds for benchmark in ALL if benchmark.name.startswith("stream/")}
        self.assertEqual(counts, {9})


class Choice(unittest.TestCase):
    """Which benchmarks of the guest are measured."""

    def chosen(self, *options: str) -> set[str]:
        request = argparse.Namespace(
            guest="--guest" in options, no_guest="--no-guest" in options, strict="--strict" in options
        )
        return {benchmark.runner.where for benchmark in bench._here(list(ALL), request)}

    def test_only_on_request(self):
        self.assertEqual(self.chosen(), {"host"})
        self.assertEqual(self.chosen("--guest"), {"host", "guest"})

    def test_strict_measures_every_goal(self):
        self.assertEqual(self.chosen("--strict"), {"host", "guest"})

    def test_strict_without_the_guest(self):
        self.assertEqual(self.chosen("--strict", "--no-guest"), {"host"})
