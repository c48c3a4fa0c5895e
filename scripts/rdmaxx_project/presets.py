"""Configures and builds a CMake preset, quietly unless it fails.

As a program: python3 -m rdmaxx_project.presets <preset> [<target>…]
"""

import contextlib
import fcntl
import hashlib
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rdmaxx_project import processes, progress
from rdmaxx_project.repository import BUILD, ROOT


class BuildFailure(Exception):
    """Says which preset failed; `output` is what the failed steps printed."""

    def __init__(self, preset: str, output: str):
        super().__init__(f"building the preset {preset} failed")
        self.output = output


def directory(preset: str) -> Path:
    return BUILD / preset


def build(preset: str, *targets: str, keep_going: bool = False) -> None:
    """Builds the targets (all, if none is named). Raises BuildFailure."""
    started = time.monotonic()
    folder = directory(preset)
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one(folder):
        configured = _configure_if_needed(preset)
        command = ["ninja", "-C", folder, *(["-k", "0"] if keep_going else []), *targets]
        steps = 0

        def show(text: str) -> None:
            nonlocal steps
            if step := re.match(r"\[(\d+)/(\d+)\] (?!Re-checking)", text):
                steps = int(step[1])
                progress.moving(f"build {preset}: {text}")

        log = folder / "build.log"
        status = processes.run(command, log, on_line=show)
    if status != 0:
        raise BuildFailure(preset, _what_failed(log))
    if steps or configured:
        progress.line(f"built {preset}: {steps} steps in {time.monotonic() - started:.1f} s")


def configure(preset: str) -> None:
    """For tools that only need the compilation database. Raises BuildFailure."""
    folder = directory(preset)
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one(folder):
        _configure_if_needed(preset)


def _configure_if_needed(preset: str) -> bool:
    # Ninja reruns CMake when a CMakeLists.txt or a globbed folder changes; only the presets are
    # unknown to it.
    folder = directory(preset)
    stamp = folder / "configured-with"
    presets = hashlib.sha256((ROOT / "CMakePresets.json").read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == presets and (folder / "build.ninja").exists():
        return False
    progress.moving(f"configure {preset}")
    log = folder / "configure.log"
    if processes.run(["cmake", "--preset", preset], log) != 0:
        raise BuildFailure(preset, processes.tail(log, 40))
    stamp.write_text(presets)
    return True


def _what_failed(log: Path) -> str:
    """What Ninja printed from its first failed step on, without the steps that went well."""
    lines = log.read_text(errors="replace").splitlines()
    first = next((i for i, text in enumerate(lines) if text.startswith("FAILED:")), None)
    if first is None:
        return processes.tail(log, 40)
    kept = [text for text in lines[first:] if not re.match(r"\[\d+/\d+\] ", text)]
    # The command line is long, repeated in the compilation database, and hides the message.
    return "\n".join(text[:2000] for text in kept if " -c " not in text)


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two commands in one checkout must not run Ninja in the same folder at once."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.line(f"waiting for another command that builds {folder.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    try:
        build(*sys.argv[1:])
    except BuildFailure as failure:
        progress.line(f"{failure.output}\n{failure}")
        return 1
    return 0


if __name__ == "__main__":
    processes.end_cleanly(main)
