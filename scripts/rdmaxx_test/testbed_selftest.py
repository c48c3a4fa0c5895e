"""Runs testbed/selftest, the testbed's test of itself, and reads its `ok NAME` / `FAILED NAME` lines."""

import re
import textwrap
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
    """A result may be followed by how long it took; below a failure stands its reason, indented."""
    steps = re.findall(r"^(ok|FAILED) +(.+?)(?: \(\d+ s\))?$((?:\n .*)*)", output, re.MULTILINE)
    tests = [_test(name, textwrap.dedent(reason.strip("\n")), word == "FAILED") for word, name, reason in steps]
    if status != 0 and not any(test.outcome is Outcome.FAILED for test in tests):
        ending = "\n".join(output.splitlines()[-25:])
        tests.append(_test("testbed selftest did not finish", f"exit status {status}\n{ending}", True))
    return tests


def _test(name: str, message: str, failed: bool) -> Test:
    return Test(LANE, SUITE, name, Outcome.FAILED if failed else Outcome.PASSED, message)
