"""Records anew what the kernel's connection manager does on rxe, into tests/data/cm_oracle_rxe.json.

As a program: PYTHONPATH=scripts python3 -m rdmaxx_test.record_cm [--runs N] [--kernel 6.12] [--out FILE]
                                                                  [--scenario NAME …]

With names of scenarios, the others stay as they are.

With more than one run, scenarios that are not the same in each are named, and the program fails: they have to be
written so that they are.
"""

import argparse
import shutil
from pathlib import Path

from rdmaxx_project import guest, presets, processes, progress
from rdmaxx_project.repository import BUILD
from rdmaxx_test import cm_recording

PRESET = "dev"
PROGRAM = "cm_oracle"
FOLDER = BUILD / "cm-oracle"
TIMEOUT = 400  # of one run

# The addresses are the guest's; the program's own messages tell how far it is.
SCRIPT = """\
for run in $(seq {runs}); do
  {program} --address "$RDMAXX_TESTBED_RXE_ADDRESS" --address6 "$RDMAXX_TESTBED_RXE_ADDRESS6" {scenarios} \\
    >{out}/$run.json || exit
done
"""


def record(runs: int, kernel: str | None, names: list[str]) -> list[Path]:
    presets.build(PRESET, PROGRAM)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    script, log = FOLDER / "record.sh", FOLDER / "guest.log"
    # A copy, because somebody may build while the guest runs, and would take it away from below.
    program = shutil.copy(presets.directory(PRESET) / "tests" / PROGRAM, FOLDER)
    scenarios = " ".join(f"--scenario {name}" for name in names)
    script.write_text(SCRIPT.format(runs=runs, program=program, out=FOLDER, scenarios=scenarios))
    status = guest.run(
        ["bash", script], FOLDER, log, timeout=runs * TIMEOUT, kernel=kernel, on_line=progress.moving
    )
    if status != 0:
        raise RuntimeError(f"the guest ended with status {status}:\n{processes.tail(log)}")
    return [FOLDER / f"{run}.json" for run in range(1, runs + 1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2, help="how often each scenario is recorded (default: 2)")
    parser.add_argument("--kernel", help="of the guest")
    parser.add_argument("--out", type=Path, default=cm_recording.RXE, help="where to keep the recording")
    parser.add_argument("--scenario", nargs="+", default=[], help="record these alone")
    wanted = parser.parse_args()
    try:
        files = record(wanted.runs, wanted.kernel, wanted.scenario)
    except (presets.BuildFailure, RuntimeError) as failure:
        progress.line(getattr(failure, "output", "") + str(failure))
        return 1
    first = cm_recording.read(files[0])
    unsteady = [
        text for file in files[1:] for text in cm_recording.differences(cm_recording.read(file), first)
    ]
    for text in unsteady:
        progress.line(f"not the same in each run: {text}")
    kept = cm_recording.read(wanted.out) if wanted.scenario else {}
    wanted.out.write_text(cm_recording.written(kept | first))
    progress.line(f"recorded {len(first)} scenarios: {wanted.out}")
    return 1 if unsteady else 0


if __name__ == "__main__":
    processes.end_cleanly(main)
