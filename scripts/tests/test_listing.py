import tempfile
import unittest
from pathlib import Path
from unittest import mock

from rdmaxx_test import listing, session
from rdmaxx_test.checks import Check, Finding
from rdmaxx_test.lanes import Lane
from rdmaxx_test.plan import Plan
from rdmaxx_test.results import LaneReport, Outcome, Test
from rdmaxx_test.selection import Selection


class Listing(unittest.TestCase):
    def program(self, script: str) -> Path:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name, "tests")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def test_titles_are_suite_and_test(self):
        program = self.program("printf 'qp.\\n  connects\\n  sends  # GetParam() = 1\\ncq.\\n  polls\\n'")
        self.assertEqual(listing.tests_of(program, Selection()), ["qp.connects", "qp.sends", "cq.polls"])

    def test_a_program_that_dies_on_the_way_is_a_failure_that_says_how(self):
        program = self.program("printf 'qp.\\n  connects\\n'; echo no device >&2; kill -SEGV $$")
        with self.assertRaisesRegex(listing.ListingFailure, "ended with -11:(.|\\n)*no device"):
            listing.tests_of(program, Selection())

    def test_a_program_that_is_not_there_is_a_failure(self):
        with self.assertRaises(listing.ListingFailure):
            listing.tests_of(Path("/nonexistent/tests"), Selection())


class SessionOutcomes(unittest.TestCase):
    """A session whose builds and runs are made up."""

    def made(self, lanes=(), checks=()) -> session.Session:
        request = mock.Mock(selection=Selection(), list_only=False, verbose=False, full=False)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with (
            mock.patch.object(session.plan, "make", return_value=Plan(list(lanes), list(checks), selftest=False)),
            mock.patch.object(session, "_new_run_folder", return_value=Path(folder.name)),
        ):
            return session.Session(request)

    def run_it(self, made: session.Session, listed) -> tuple[int, str]:
        passed = lambda lane, *_: LaneReport(lane.name, [Test(lane.name, "qp", "connects", Outcome.PASSED)], 0)
        with (
            mock.patch.object(session.presets, "build"),
            mock.patch.object(session, "tests_of", side_effect=listed),
            mock.patch.object(session.lane_runs, "on_this_machine", side_effect=passed),
            mock.patch("builtins.print") as printed,
        ):
            status = made.run()
        return status, "\n".join(str(call.args[0]) for call in printed.call_args_list if call.args)

    def test_a_program_that_dies_while_it_lists_its_tests_fails_the_run(self):
        made = self.made(lanes=[Lane("soft", "dev", "device_tests"), Lane("host", "dev", "unit_tests")])

        def listed(program, _):
            if program.name == "device_tests":
                raise listing.ListingFailure("ended with -11")
            return ["qp.connects"]

        status, output = self.run_it(made, listed)
        self.assertEqual(status, 1)
        self.assertIn("FAILED list of tests.device_tests [host]", output)

    def test_programs_that_tell_their_tests_pass(self):
        made = self.made(lanes=[Lane("soft", "dev", "device_tests")])
        self.assertEqual(self.run_it(made, [["qp.connects"]])[0], 0)

    def test_a_case_that_could_not_be_tried_is_a_skip_with_its_name(self):
        check = Check("processes", lambda _: [Finding("one host"), Finding("two hosts", skipped="only root can")])
        status, output = self.run_it(self.made(checks=[check]), [])
        self.assertEqual(status, 0)
        self.assertIn("only root can: check: processes: two hosts", output)
        self.assertIn("1 passed, 0 failed, 1 skipped", output)
