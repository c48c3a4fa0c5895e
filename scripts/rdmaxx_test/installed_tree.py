"""Builds and installs the library as a package maintainer would: release flags, library only."""

import shutil
from pathlib import Path

from rdmaxx_project import processes
from rdmaxx_project.repository import BUILD, ROOT

FOLDER = BUILD / "checks" / "installed"


class InstallFailure(Exception):
    pass


def install(kind: str) -> Path:
    """`kind` is "static", "shared" or "verbs", which is as on a machine without librdmacm; returns the prefix, freshly
    filled."""
    build, prefix = FOLDER / kind / "build", FOLDER / kind / "prefix"
    shutil.rmtree(prefix, ignore_errors=True)
    parts = ("TESTS", "TOOLS", "EXAMPLES", "BENCHMARKS")
    run_step(
        f"configuring the {kind} library",
        ["cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release"]
        + [f"-DRDMAXX_BUILD_{part}=OFF" for part in parts]
        + [f"-DBUILD_SHARED_LIBS={'ON' if kind == 'shared' else 'OFF'}"]
        + (["-DRDMAXX_BUILD_CM=OFF"] if kind == "verbs" else []),
        build,
    )
    run_step(f"building the {kind} library", ["cmake", "--build", build], build)
    run_step(f"installing the {kind} library", ["cmake", "--install", build, "--prefix", prefix], build)
    return prefix


def run_step(what: str, command: list[str | Path], folder: Path, **environment: str) -> str:
    """Returns the output; raises InstallFailure with it if the command fails."""
    log = folder.with_name(f"{folder.name}.log")
    if processes.run(command, log, environment=environment, timeout=600) != 0:
        raise InstallFailure(f"{what} failed:\n{processes.tail(log, 40)}")
    return log.read_text()
