"""Runs testbed/selftest, the testbed's test of itself, and reads its `ok NAME` / `FAILED NAME` lines."""

import re
import time
from pathlib import Path

from rdmaxx_project import processes, progress
from rdmaxx_project.repository import ROOT
from rdmaxx_test.results import LaneReport, Outcome, Test

SUITE = "testbed"
LANE = "host"
PROGRAM = ROOT / "testbed" / "selftest"
TIMEOUT = 1200


def run(out: Path, *, full: bool, verbose: bool) -> LaneReport:
    log = out / "testbed-selftest.log"
    started = time.monotonic()
    status = processes.run(
        [PROGRAM, *(["--full"] if full else [])],
        log,
        timeout=TIMEOUT,
        on_line=progress.line if verbose else None,
    )
    seconds = time.monotonic() - started
    tests = read(log.read_text(errors="replace"), status)
    progress.line(f"testbed selftest: {len(tests)} results ({seconds:.0f} s)")
    return LaneReport(SUITE, tests, seconds)


def read(output: str, status: int) -> list[Test]:
    tests = []
    since_last: list[str] = []
    for line in output.splitlines():
        result = re.match(r"(ok|FAILED) +(\S.*)", line)
        if not result:
            since_last.append(line)
            continue
        failed = result[1] == "FAILED"
        message = "\n".join(since_last[-25:]) if failed else ""
        tests.append(_test(result[2].strip(), message, failed))
        since_last = []
    if status != 0 and not any(test.outcome is Outcome.FAILED for test in tests):
        ending = "\n".join(output.splitlines()[-25:])
        tests.append(_test("testbed selftest did not finish", f"exit status {status}\n{ending}", True))
    return tests


def _test(name: str, message: str, failed: bool) -> Test:
    return Test(LANE, SUITE, name, Outcome.FAILED if failed else Outcome.PASSED, message)
