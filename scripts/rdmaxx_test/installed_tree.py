"""Builds and installs the library as a package maintainer would: the preset `release`, library only.

The build folders are as deep as those of the presets: ccache knows the objects of one from the other.
"""

import functools
import shutil
from pathlib import Path

from rdmaxx_project import processes
from rdmaxx_project.repository import BUILD

FOLDER = BUILD / "checks" / "installed"
TIMEOUT = 1200  # seconds; from nothing, on a machine that does other things as well
PARTS_LEFT_OUT = ("TOOLS", "EXAMPLES", "BENCHMARKS")


class InstallFailure(Exception):
    pass


def build_folder(name: str) -> Path:
    return BUILD / f"package-{name}"


@functools.cache
def install(kind: str) -> Path:
    """`kind` is "static", "shared" or "verbs", which is as on a machine without librdmacm; returns the prefix, freshly
    filled in this run."""
    build, prefix = build_folder(kind), FOLDER / kind / "prefix"
    shutil.rmtree(prefix, ignore_errors=True)
    run_step(
        f"configuring the {kind} library",
        ["cmake", "--preset", "release", "-B", build]
        + [f"-DRDMAXX_BUILD_{part}=OFF" for part in PARTS_LEFT_OUT]
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
    status = processes.run(command, log, environment=environment, timeout=TIMEOUT)
    if status == processes.TIMED_OUT:
        raise InstallFailure(f"{what} timed out after {TIMEOUT} s; the end of its output:\n{processes.tail(log)}")
    if status != 0:
        raise InstallFailure(f"{what} failed:\n{processes.tail(log, 40)}")
    return log.read_text()
