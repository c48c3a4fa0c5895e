"""Runs lanes, on this machine or together in one boot of a guest."""

import re
import shlex
import time
from pathlib import Path

from rdmaxx_project import guest, processes, progress
from rdmaxx_test import gtest_results
from rdmaxx_test.lanes import Lane
from rdmaxx_test.results import LaneReport, Outcome, Test
from rdmaxx_test.selection import Selection


def on_this_machine(lane: Lane, selection: Selection, out: Path, verbose: bool) -> LaneReport:
    report, log = out / f"{lane.file_stem}.xml", out / f"{lane.file_stem}.log"
    started = time.monotonic()
    status = processes.run(
        lane.command(selection.gtest_filter(), report),
        log,
        timeout=lane.timeout,
        environment=lane.environment(),
        on_line=progress.line if verbose else None,
    )
    return _finished(
        lane, report, log, status, time.monotonic() - started, may_be_empty=lane.is_partial and bool(selection.words)
    )


def in_a_guest(
    lanes: list[Lane], selection: Selection, out: Path, verbose: bool
) -> list[LaneReport]:
    """All lanes of one kernel, one after the other in one boot."""
    kernel = lanes[0].kernel
    out = out / f"guest-{kernel}"
    out.mkdir(parents=True, exist_ok=True)
    script, log = out / "lanes.sh", out / "guest.log"
    script.write_text("\n".join(_steps(lane, selection, out) for lane in lanes))
    reports: dict[str, LaneReport] = {}

    def follow(text: str) -> None:
        if verbose:
            progress.line(text)
        if begun := re.match(r"lane-begin (\S+)", text):
            progress.moving(f"guest {kernel}: {begun[1]}")
        if ended := re.match(r"lane-end (\S+) (\d+) s", text):
            lane = next((lane for lane in lanes if lane.name == ended[1]), None)
            if lane:
                reports[lane.name] = _collect(lane, out, float(ended[2]))

    status = guest.run(
        ["bash", script],
        out,
        log,
        timeout=sum(lane.timeout for lane in lanes) + 60,
        kernel=kernel,
        on_line=follow,
    )
    # A lane that the console did not report may still have left its files.
    for lane in lanes:
        if lane.name not in reports:
            reports[lane.name] = _collect(lane, out, 0.0, fallback=log)
    in_order = [reports[lane.name] for lane in lanes]
    if status != 0 and not any(test.outcome is Outcome.FAILED for r in in_order for test in r.tests):
        in_order.append(_guest_failure(lanes[0], status, log))
    return in_order


def in_two_guests(lane: Lane, selection: Selection, out: Path, verbose: bool) -> LaneReport:
    """Machine a judges; b reports to it, and does not survive the last test."""
    out = out / "guest-pair"
    out.mkdir(parents=True, exist_ok=True)
    report, log = out / "a.xml", out / "guest.log"
    progress.moving(f"guests {lane.kernel}: {lane.name}")
    started = time.monotonic()
    status = guest.run(
        lane.command(selection.gtest_filter(), report),
        out,
        log,
        timeout=lane.timeout,
        kernel=lane.kernel,
        peer=lane.command(selection.gtest_filter(), out / "b.xml"),
        on_line=progress.line if verbose else None,
    )
    return _finished(lane, report, log, status, time.monotonic() - started)


def _guest_failure(lane: Lane, status: int, log: Path) -> LaneReport:
    """Every lane passed, and yet the guest complains: its kernel, or its end."""
    message = f"exit status {status}; the end of its output:\n{processes.tail(log)}"
    test = Test(lane.name, "guest", f"kernel {lane.kernel} ended badly", Outcome.FAILED, message)
    return LaneReport(lane.name, [test], 0.0)


def _steps(lane: Lane, selection: Selection, out: Path) -> str:
    stem = out / lane.file_stem
    command = lane.command(selection.gtest_filter(), stem.with_suffix(".xml"))
    variables = [f"{name}={value}" for name, value in lane.environment().items()]
    run = shlex.join(
        ["timeout", "--kill-after=5", str(lane.timeout), "env", *variables, *command]
    )
    return f"""\
echo "lane-begin {lane.name}"; began=$SECONDS
{run} >{stem}.log 2>&1 </dev/null
echo $? >{stem}.status
echo "lane-end {lane.name} $((SECONDS - began)) s"
"""


def _collect(lane: Lane, out: Path, seconds: float, fallback: Path | None = None) -> LaneReport:
    stem = out / lane.file_stem
    log = Path(f"{stem}.log")
    try:
        status = int(Path(f"{stem}.status").read_text())
    except (OSError, ValueError):
        status = None
    if fallback and not log.exists():
        log = fallback
    return _finished(lane, Path(f"{stem}.xml"), log, status, seconds)


def _finished(
    lane: Lane, report: Path, log: Path, status: int | None, seconds: float, *, may_be_empty: bool = False
) -> LaneReport:
    tests = gtest_results.read(lane.name, lane.program, report, log, status, may_be_empty=may_be_empty)
    counts = {outcome: sum(test.outcome is outcome for test in tests) for outcome in Outcome}
    told = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count)
    progress.line(f"lane {lane.name}: {told or 'no tests'} ({seconds:.0f} s)")
    return LaneReport(lane.name, tests, seconds)
