"""Reads what a GoogleTest program left behind: its XML report, its exit status, its output."""

import re
import xml.etree.ElementTree as xml
from pathlib import Path

from rdmaxx_project import processes
from rdmaxx_test.results import Outcome, Test


def read(
    lane: str, program: str, report: Path, log: Path, status: int | None, *, may_be_empty: bool = False
) -> list[Test]:
    """A program that crashed, hung or failed outside of its tests counts as one failed test."""
    try:
        tests = _parse(lane, xml.parse(report).getroot())
    except (OSError, xml.ParseError):
        return [_failure(lane, program, f"{lane} did not finish", _how_it_ended(log, status))]
    if status != 0 and not any(test.outcome is Outcome.FAILED for test in tests):
        tests.append(_failure(lane, program, f"{lane} ended badly", _how_it_ended(log, status)))
    # Lanes in which no test is asked for are not run at all.
    if may_be_empty and not tests:
        return []
    return tests or [_failure(lane, program, f"{lane} ran no test", _how_it_ended(log, status))]


def _failure(lane: str, program: str, name: str, message: str) -> Test:
    return Test(lane, program, name, Outcome.FAILED, message)


def _parse(lane: str, root: xml.Element) -> list[Test]:
    return [
        _test(lane, case)
        for case in root.iter("testcase")
        if case.get("status") == "run" or case.get("result") == "skipped"
    ]


def _test(lane: str, case: xml.Element) -> Test:
    suite = case.get("classname", "").split("/")[0]
    name = case.get("name", "")
    failures = [failure.get("message", "") for failure in case.findall("failure")]
    if failures:
        return Test(lane, suite, name, Outcome.FAILED, "\n".join(failures))
    skip = case.find("skipped")
    if skip is None and case.get("result") != "skipped":
        return Test(lane, suite, name, Outcome.PASSED)
    reason = _without_place(skip.get("message", "") if skip is not None else "")
    if not reason:
        return Test(lane, suite, name, Outcome.FAILED, "was skipped without saying why")
    return Test(lane, suite, name, Outcome.SKIPPED, reason)


def _without_place(message: str) -> str:
    """Drops the 'file:line' that GoogleTest puts first."""
    lines = message.strip().splitlines()
    if lines and re.fullmatch(r".+:\d+", lines[0].strip()):
        lines = lines[1:]
    return " ".join(line.strip() for line in lines if line.strip() not in ("", "Skipped"))


def _how_it_ended(log: Path, status: int | None) -> str:
    how = "no exit status" if status is None else f"exit status {status}"
    if status == processes.TIMED_OUT:
        how = "timed out"
    output = log.read_text(errors="replace") if log.exists() else ""
    begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    if begun and not re.search(rf"^\[  .*\] {re.escape(begun[-1])}\b", output, re.MULTILINE):
        how += f", in {begun[-1]}"
    return f"{how}; the end of its output:\n{processes.tail(log)}"
