"""softverbs and the kernel's own RoCE device understand each other, whichever of them serves.

In the testbed's guest, which has that kernel; interoperation_cases.py says what they do together.
"""

import json
import shutil
import sys
from collections.abc import Iterable

from rdmaxx_project import guest, presets, processes, progress
from rdmaxx_test.checks import Finding, Wanted
from rdmaxx_test.interoperation_cases import ALL, FOLDER, JUMBO, PROGRAMS

PRESET = "dev"
LOGS = FOLDER / "logs"  # the only part that the guest writes to; what it does not write to, it caches
TIMEOUT = 1500  # seconds; an idle machine needs a tenth of it


def run(wanted: Wanted) -> Iterable[Finding]:
    return _run([case.name for case in ALL if case.cable is JUMBO and wanted(case.name)])


def run_on_other_cables(wanted: Wanted) -> Iterable[Finding]:
    return _run([case.name for case in ALL if case.cable is not JUMBO and wanted(case.name)])


def _run(names: list[str]) -> Iterable[Finding]:
    if not names:
        return
    try:
        presets.build(PRESET, "softverbs", *PROGRAMS)
    except presets.BuildFailure as failure:
        yield Finding("build", failure.output)
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    # Copies, because somebody may build while the guest runs, and would take them away from below.
    library = shutil.copy(presets.directory(PRESET) / "lib/libsoftverbs.so", FOLDER)
    for name in PROGRAMS:
        shutil.copy(presets.directory(PRESET) / "examples" / name, FOLDER)
    program = ["env", "PYTHONPATH=scripts", sys.executable, "-m", "rdmaxx_test.interoperation_guest"]
    problems: dict[str, str] = {}

    def read(line: str) -> None:
        progress.moving(f"interoperation: {line}")
        if line.startswith('{"case": '):
            result = json.loads(line)
            problems[result["case"]] = result["problem"]

    log = FOLDER / "guest.log"
    status = guest.run([*program, library, LOGS, *names], LOGS, log, timeout=TIMEOUT, on_line=read)
    for name in names:
        yield Finding(name, problems.get(name, "the guest did not come to it"))
    if status != 0:
        yield Finding("guest", f"exit status {status}\n{processes.tail(log)}")
