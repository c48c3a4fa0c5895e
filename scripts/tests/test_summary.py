import unittest

from rdmaxx_test import summary, testbed_selftest
from rdmaxx_test.results import LaneReport, Outcome, Test


def some(lane: str, suite: str, passed: int = 0, failed: int = 0, skipped: int = 0) -> list[Test]:
    outcomes = [Outcome.PASSED] * passed + [Outcome.FAILED] * failed + [Outcome.SKIPPED] * skipped
    return [Test(lane, suite, f"t{i}", outcome, "because") for i, outcome in enumerate(outcomes)]


class Summary(unittest.TestCase):
    def setUp(self):
        tests = some("rxe", "queue_pair", 10, 0, 2) + some("siw", "queue_pair", 11, 1) + some("rxe", "cq", 3)
        self.lines = summary.render(tests, [LaneReport("rxe", tests, 7)], ["host", "rxe", "siw"]).splitlines()

    def test_matrix_has_suites_and_lanes(self):
        self.assertEqual(self.lines[0].split(), ["suite", "rxe", "siw"])
        self.assertEqual(self.lines[1].split(), ["cq", "3", "-"])
        self.assertEqual(self.lines[2].split(), ["queue_pair", "10+2s", "FAIL", "1/12"])

    def test_last_line_is_the_total(self):
        self.assertEqual(self.lines[-1], "24 passed, 1 failed, 2 skipped")

    def test_failures_and_skips_are_told_with_their_reasons(self):
        self.assertIn("FAILED queue_pair.t11 [siw]", self.lines)
        self.assertIn("  because: 2 on rxe", self.lines)

    def test_times_are_told_by_part_the_longest_first(self):
        reports = [LaneReport("soft", [], 52), LaneReport("building dev", [], 60), LaneReport("soft", [], 13)]
        lines = summary.render(some("soft", "cq", passed=1), reports, ["soft"]).splitlines()
        self.assertIn("times: soft 65 s, building dev 60 s", lines)

    def test_cases_of_checks_that_could_not_be_tried_are_counted_and_named(self):
        tests = some("host", "check: processes", passed=1, skipped=2)
        lines = summary.render(tests, [], ["host"]).splitlines()
        self.assertEqual(lines[1].split(), ["check:", "processes", "1+2s"])
        self.assertIn("  because: check: processes: t1; t2", lines)
        self.assertEqual(lines[-1], "1 passed, 0 failed, 2 skipped")


class TestbedSelftest(unittest.TestCase):
    def test_lines_become_results(self):
        output = "ok boots (7 s)\nFAILED has siw (3 s)\n    no such device\n    rxe0\n"
        good, bad = testbed_selftest.read(output, 1)
        self.assertEqual((good.name, good.outcome), ("boots", Outcome.PASSED))
        self.assertEqual((bad.name, bad.outcome, bad.message), ("has siw", Outcome.FAILED, "no such device\nrxe0"))

    def test_an_early_end_is_a_failure(self):
        self.assertEqual([t.outcome for t in testbed_selftest.read("", 2)], [Outcome.FAILED])
