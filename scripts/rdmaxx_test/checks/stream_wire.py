"""Streams between two rxe devices whose packets cross a cable, with and without loss; in the testbed's guest."""

from collections.abc import Iterable

from rdmaxx_project import guest, presets, progress
from rdmaxx_project.repository import BUILD
from rdmaxx_test import gtest_results
from rdmaxx_test.checks import Finding, Wanted
from rdmaxx_test.results import Outcome

PRESET = "dev"
FOLDER = BUILD / "checks" / "stream_wire"
TIMEOUT = 300  # seconds; an idle machine needs a tenth of it
WIRES = {"a good wire": 0, "a wire that loses 1 %": 1}  # per cent of the packets


def run(wanted: Wanted) -> Iterable[Finding]:
    try:
        presets.build(PRESET, "device_tests")
    except presets.BuildFailure as failure:
        yield Finding("build", failure.output)
        return
    for name, loss in WIRES.items():
        if wanted(name):
            progress.moving(f"streams over {name}")
            yield Finding(name, _problem(loss))


def _problem(loss: int) -> str:
    out = FOLDER / f"loss-{loss}"
    report, log = out / "report.xml", out / "guest.log"
    report.unlink(missing_ok=True)
    program = presets.directory(PRESET) / "tests" / "device_tests"
    command = ["env", "RDMAXX_TEST_DEVICE=r0", "SOFTVERBS_NETDEVS=lo", program, "--gtest_also_run_disabled_tests"]
    command += ["--gtest_filter=stream_wire.*", f"--gtest_output=xml:{report}"]
    status = guest.run(command, out, log, timeout=TIMEOUT, wire=True, loss=loss)
    tests = gtest_results.read("guest", "device_tests", report, log, status)
    return "\n".join(f"{test.name}: {test.message}" for test in tests if test.outcome is not Outcome.PASSED)
