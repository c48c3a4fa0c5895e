import unittest

from rdmaxx_bench import report
from rdmaxx_bench.goals import AtMostMore, RatioAtLeast, RatioAtMost
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

    def test_what_was_not_measured_is_not_met(self):
        self.assertFalse(report.Measurement(ALL[0], None, "not built").met)

    def test_names_are_unique(self):
        self.assertEqual(len({benchmark.name for benchmark in ALL}), len(ALL))
