"""A short run of each fuzzer, always the same one. docs/fuzzing.md tells how to run them for longer."""

import shutil
from collections.abc import Iterable

from rdmaxx_project import presets, processes, progress
from rdmaxx_project.repository import BUILD, ROOT
from rdmaxx_test.checks import Finding, Wanted

PRESET = "clang"
SOURCES = ROOT / "tests" / "fuzz"
FOLDER = BUILD / "checks" / "fuzz"
RUNS = 5000
MOST_SECONDS = 10
TIMEOUT = 120  # seconds, for a machine that does other things as well


def run(wanted: Wanted) -> Iterable[Finding]:
    try:
        presets.build(PRESET, "fuzzers")
    except presets.BuildFailure as failure:
        yield Finding("build", failure.output)
        return
    for source in sorted(SOURCES.glob("*_fuzzer.cpp")):
        if wanted(source.stem):
            progress.moving(f"fuzz: {source.stem}")
            yield Finding(source.stem, _problem(source.stem))


def _problem(name: str) -> str:
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    found = folder / "corpus"  # the first folder is the one that grows
    found.mkdir(parents=True)
    log = folder / "log"
    command = [
        presets.directory(PRESET) / "tests" / "fuzz" / name,
        "-seed=1",
        f"-runs={RUNS}",
        f"-max_total_time={MOST_SECONDS}",
        "-timeout=20",
        "-max_len=1024",
        f"-artifact_prefix={folder}/",
        found,
        SOURCES / "corpus" / name.removesuffix("_fuzzer"),
    ]
    status = processes.run(command, log, timeout=TIMEOUT)
    if status == 0:
        return ""
    inputs = [str(path) for path in folder.iterdir() if path.name.startswith(("crash-", "timeout-", "leak-", "oom-"))]
    return f"exit status {status}; {command[0]} {' '.join(inputs)} shows it\n{processes.tail(log, 60)}"
