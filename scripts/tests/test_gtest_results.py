import tempfile
import unittest
from pathlib import Path

from rdmaxx_test import gtest_results
from rdmaxx_test.results import Outcome

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="queue_pair">
  <testcase name="connects" status="run" result="completed" classname="queue_pair" />
  <testcase name="sends" status="run" result="completed" classname="queue_pair">
    <failure message="a.cpp:3&#x0A;Value of: x" type=""></failure>
  </testcase>
  <testcase name="atomics" status="run" result="skipped" classname="queue_pair">
    <skipped message="a.cpp:9&#x0A;needs atomics"/>
  </testcase>
  <testcase name="silent" status="run" result="skipped" classname="queue_pair">
    <skipped message="a.cpp:9&#x0A;"/>
  </testcase>
  <testcase name="filtered" status="notrun" result="suppressed" classname="queue_pair" />
</testsuite></testsuites>
"""


class GtestResults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.report, self.log = Path(folder.name, "report.xml"), Path(folder.name, "log")

    def read(self, status, **options):
        return gtest_results.read("rxe", "device_tests", self.report, self.log, status, **options)

    def test_outcomes_and_messages(self):
        self.report.write_text(REPORT)
        tests = {test.name: test for test in self.read(1)}
        self.assertEqual(tests["connects"].outcome, Outcome.PASSED)
        self.assertEqual(tests["sends"].message, "a.cpp:3\nValue of: x")
        self.assertEqual((tests["atomics"].outcome, tests["atomics"].message), (Outcome.SKIPPED, "needs atomics"))
        self.assertNotIn("filtered", tests)

    def test_a_skip_without_a_reason_is_a_failure(self):
        self.report.write_text(REPORT)
        (silent,) = (test for test in self.read(1) if test.name == "silent")
        self.assertEqual(silent.outcome, Outcome.FAILED)

    def test_a_crash_is_one_failed_test_that_says_where(self):
        self.log.write_text("[ RUN      ] queue_pair.connects\nSegmentation fault\n")
        (test,) = self.read(139)
        self.assertEqual((test.outcome, test.name), (Outcome.FAILED, "rxe did not finish"))
        self.assertIn("exit status 139, in queue_pair.connects", test.message)
        self.assertIn("Segmentation fault", test.message)

    def test_a_lane_that_ran_no_test_is_a_failure(self):
        self.report.write_text("<testsuites></testsuites>")
        self.assertEqual([(t.name, t.outcome) for t in self.read(0)], [("rxe ran no test", Outcome.FAILED)])

    def test_a_lane_without_the_tests_that_were_asked_for_may_be_empty(self):
        self.report.write_text("<testsuites></testsuites>")
        self.assertEqual(self.read(0, may_be_empty=True), [])
        self.assertEqual([t.name for t in self.read(1, may_be_empty=True)], ["rxe ended badly"])

    def test_a_sanitizer_report_after_the_last_test_is_a_failure(self):
        self.report.write_text('<testsuites><testcase name="a" status="run" classname="s"/></testsuites>')
        self.log.write_text("WARNING: ThreadSanitizer: data race\n")
        self.assertEqual([test.name for test in self.read(66)], ["a", "rxe ended badly"])
