"""One run of ./test, from the builds to the summary.

What the device lanes need is built first. Then the guest works through them while this machine runs the
unit tests and the checks: emulation leaves enough of two cores for both.
"""

import os
import shutil
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rdmaxx_project import presets, processes, progress
from rdmaxx_project.repository import BUILD, ROOT
from rdmaxx_test import lane_runs, plan, summary, testbed_selftest
from rdmaxx_test.checks import Check, Finding
from rdmaxx_test.command_line import Request
from rdmaxx_test.lanes import Lane
from rdmaxx_test.listing import ListingFailure, tests_of
from rdmaxx_test.results import LaneReport, Outcome, Test

RUNS = BUILD / "test-runs"
KEPT_RUNS = 5
CHECK_LANE = "host"
NICENESS_BESIDE_GUEST = 5  # device tests have deadlines; compilers have none


@dataclass(frozen=True)
class Build:
    preset: str
    program: str

    def __str__(self) -> str:
        return f"{self.program} with {self.preset}"


def _build_of(lane: Lane) -> Build:
    return Build(lane.preset, lane.program)


class Session:
    def __init__(self, request: Request):
        self._request = request
        self._plan = plan.make(request)
        self._out = _new_run_folder()
        self._tried: set[Build] = set()
        self._unbuilt: dict[Build, str] = {}  # with what the compiler said
        self._building: dict[str, float] = {}  # the seconds that each preset took, other than in checks
        self._unlisted: dict[str, str] = {}  # programs that did not tell their tests, with how they ended

    def run(self) -> int:
        started = time.monotonic()
        self._build_to_know_the_tests()
        if self._request.list_only:
            return self._list()
        reports = self._run_all()
        tests = [test for report in reports for test in report.tests]
        progress.line(f"took {time.monotonic() - started:.0f} s; logs are in {self._out}\n")
        rendered = summary.render(tests, reports, self._columns())
        print(rendered.replace(f"{ROOT}/", ""), flush=True)
        failed = any(test.outcome is Outcome.FAILED for test in tests)
        return 1 if failed or not tests else 0

    def _build_to_know_the_tests(self) -> None:
        """`dev` tells what tests there are; a lane in which none was asked for is left out."""
        if not self._plan.lanes:
            return
        without_tests = set()
        for program in self._programs():
            if not self._build(Build("dev", program)):
                continue
            try:
                if not self._selected(program):
                    without_tests.add(program)
            except ListingFailure as failure:  # its lanes stay: they tell more, and cannot vanish
                self._unlisted[program] = str(failure)
        self._plan.keep_lanes(lambda lane: lane.program not in without_tests)

    def _selected(self, program: str) -> list[str]:
        return tests_of(presets.directory("dev") / "tests" / program, self._request.selection)

    def _programs(self) -> list[str]:
        return list(dict.fromkeys(lane.program for lane in self._plan.lanes))

    def _build(self, build: Build) -> bool:
        """Once in a session; whether it is there."""
        if build not in self._tried:
            self._tried.add(build)
            started = time.monotonic()
            try:
                presets.build(build.preset, build.program)
            except presets.BuildFailure as failure:
                self._unbuilt[build] = failure.output
                progress.line(f"{failure}: {build.program}")
            spent = self._building.get(build.preset, 0.0)
            self._building[build.preset] = spent + time.monotonic() - started
        return build not in self._unbuilt

    def _list(self) -> int:
        print("lanes:", *(f"  {name}" for name in self._columns()), sep="\n")
        print("checks:", *(f"  {check.suite}" for check in self._plan.checks), sep="\n")
        print("tests:")
        for program in self._programs():
            if program not in self._unlisted:
                print(*(f"  {title}" for title in self._selected(program)), sep="\n")
        print(*(f"{program}: {how}" for program, how in self._unlisted.items()), sep="\n", end="")
        return 1 if self._unbuilt or self._unlisted else 0

    def _columns(self) -> list[str]:
        return list(dict.fromkeys([CHECK_LANE, *(lane.name for lane in self._plan.lanes)]))

    def _run_all(self) -> list[LaneReport]:
        with ThreadPoolExecutor(1) as beside:
            ready = [lane for lane in self._plan.lanes_in_guest() if self._build(_build_of(lane))]
            in_guest = beside.submit(self._run_in_guest, ready)
            if ready:
                os.nice(NICENESS_BESIDE_GUEST)  # of this thread and what it starts, on Linux
            try:
                reports = [self._run_here(lane) for lane in self._plan.lanes_here()]
                reports += [self._check(check) for check in self._plan.checks]
                reports += in_guest.result() + self._build_times()
                return reports + self._build_failures() + self._listing_failures()
            except BaseException:
                processes.stop_all()
                raise

    def _run_here(self, lane: Lane) -> LaneReport:
        if not self._build(_build_of(lane)):
            return LaneReport(lane.name, [], 0.0)
        return lane_runs.on_this_machine(
            lane, self._request.selection, self._out, self._request.verbose
        )

    def _run_in_guest(self, ready: list[Lane]) -> list[LaneReport]:
        reports = []
        alone = [lane for lane in ready if not lane.pair]
        for kernel in dict.fromkeys(lane.kernel for lane in alone):
            lanes = [lane for lane in alone if lane.kernel == kernel]
            reports += lane_runs.in_a_guest(
                lanes, self._request.selection, self._out, self._request.verbose
            )
        for lane in ready:
            if lane.pair:
                reports.append(
                    lane_runs.in_two_guests(
                        lane, self._request.selection, self._out, self._request.verbose
                    )
                )
        if self._plan.selftest:
            reports.append(
                testbed_selftest.run(
                    self._out, full=self._request.full, verbose=self._request.verbose
                )
            )
        return reports

    def _build_times(self) -> list[LaneReport]:
        return [LaneReport(f"building {preset}", [], seconds) for preset, seconds in self._building.items()]

    def _build_failures(self) -> list[LaneReport]:
        return [
            LaneReport(CHECK_LANE, [Test(CHECK_LANE, "build", str(build), Outcome.FAILED, output)], 0.0)
            for build, output in self._unbuilt.items()
        ]

    def _listing_failures(self) -> list[LaneReport]:
        return [
            LaneReport(CHECK_LANE, [Test(CHECK_LANE, "list of tests", program, Outcome.FAILED, how)], 0.0)
            for program, how in self._unlisted.items()
        ]

    def _check(self, check: Check) -> LaneReport:
        started = time.monotonic()
        progress.moving(check.suite)
        whole = self._request.selection.covers(check.suite)
        wanted = lambda case: whole or self._request.selection.covers(f"{check.suite}.{case}")
        tests = list(_findings_as_tests(check, wanted))
        seconds = time.monotonic() - started
        failed = sum(test.outcome is Outcome.FAILED for test in tests)
        skipped = sum(test.outcome is Outcome.SKIPPED for test in tests)
        verdict = f"{failed} of {len(tests)} failed" if failed else f"{len(tests) - skipped} passed"
        verdict += f", {skipped} skipped" if skipped else ""
        progress.line(f"{check.suite}: {verdict} ({seconds:.0f} s)")
        return LaneReport(check.suite, tests, seconds)


def _findings_as_tests(check: Check, wanted) -> Iterable[Test]:
    try:
        for finding in check.run(wanted):
            yield _as_test(check, finding)
    except Exception:  # a check that breaks down must not take the others with it
        yield Test(CHECK_LANE, check.suite, "run", Outcome.FAILED, traceback.format_exc())


def _as_test(check: Check, finding: Finding) -> Test:
    outcome, message = Outcome.PASSED, ""
    if finding.problem:
        outcome, message = Outcome.FAILED, finding.problem
    elif finding.skipped:
        outcome, message = Outcome.SKIPPED, finding.skipped
    return Test(CHECK_LANE, check.suite, finding.case, outcome, message)


def _new_run_folder() -> Path:
    RUNS.mkdir(parents=True, exist_ok=True)
    older = sorted(path for path in RUNS.iterdir() if path.is_dir() and not path.is_symlink())
    for path in older[: -KEPT_RUNS + 1]:
        shutil.rmtree(path, ignore_errors=True)
    folder = RUNS / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    folder.mkdir()
    latest = RUNS / "latest"
    latest.unlink(missing_ok=True)
    latest.symlink_to(folder.name)
    return folder
