"""`ctest --preset dev` knows every test that ./test knows, and runs it: those without a device pass here."""

import json
import subprocess
from collections.abc import Iterable

from rdmaxx_project import presets, processes
from rdmaxx_project.repository import BUILD, ROOT
from rdmaxx_test import lanes
from rdmaxx_test.checks import Finding, Wanted
from rdmaxx_test.listing import ListingFailure, tests_of
from rdmaxx_test.selection import Selection

PRESET = "dev"
PROGRAMS = (*lanes.HOST_PROGRAMS, "device_tests", lanes.SOFT_DEVICE_PROGRAM)
LABELS = "^(unit|softverbs)$"
LOG = BUILD / "checks" / "ctest.log"
TIMEOUT = 300  # seconds; an idle machine needs a thirtieth of it


def run(wanted: Wanted) -> Iterable[Finding]:
    try:
        presets.build(PRESET, *PROGRAMS)
    except presets.BuildFailure as failure:
        yield Finding("build", failure.output)
        return
    cases = {"every test is known": _unknown_tests, "tests without a device": _failures}
    for name, problem in cases.items():
        if wanted(name):
            yield Finding(name, problem())


def _unknown_tests() -> str:
    asked = subprocess.run(
        ["ctest", "--preset", PRESET, "--show-only=json-v1"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        return f"ctest ended with {asked.returncode}:\n{asked.stderr}"
    known = {test["name"] for test in json.loads(asked.stdout)["tests"]}
    folder = presets.directory(PRESET) / "tests"
    try:
        expected = {title for program in PROGRAMS for title in tests_of(folder / program, Selection())}
    except ListingFailure as failure:
        return str(failure)
    return "\n".join(f"ctest does not know {title}" for title in sorted(expected - known))


def _failures() -> str:
    command = ["ctest", "--preset", PRESET, "--label-regex", LABELS, "--parallel", "2"]
    status = processes.run(command, LOG, timeout=TIMEOUT)
    return f"ctest ended with {status}:\n{processes.tail(LOG, 60)}" if status != 0 else ""
