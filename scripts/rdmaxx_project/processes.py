"""Starts programs, and leaves none of them behind: everything that ./test and ./bench start, they start here.

`run` waits for the end of one, with its output in a log file, within a time limit. `start` is for those that run
beside us, and `end` ends them; `beside` does both.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, NoReturn

from rdmaxx_project import progress
from rdmaxx_project.repository import ROOT

TIMED_OUT = 124  # as timeout(1) reports it

_running: set[subprocess.Popen] = set()
_stopped = threading.Event()


def start(
    command: list[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    words: int = subprocess.DEVNULL,
    output: int | IO[str] = subprocess.DEVNULL,
    errors: int | IO[str] = subprocess.STDOUT,
) -> subprocess.Popen:
    """A program that runs beside us until `end`, in a session of its own; `words` is what it reads."""
    if _stopped.is_set():
        raise InterruptedError(f"not started, because everything is being stopped: {command[0]}")
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=words,
        stdout=output,
        stderr=errors,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    _running.add(process)
    return process


@contextlib.contextmanager
def beside(command: list[str | Path], **options: object) -> Iterator[subprocess.Popen]:
    """`start`, and `end` with the `with`."""
    process = start(command, **options)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen) -> None:
    """It and what it has started."""
    _kill(process)
    process.wait()
    _running.discard(process)


def run(
    command: list[str | Path],
    log: Path,
    *,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    on_line: Callable[[str], None] | None = None,
) -> int:
    """Returns the exit status. `on_line` sees every line of output as it comes."""
    log.parent.mkdir(parents=True, exist_ok=True)
    process = start(command, environment=environment, folder=folder, output=subprocess.PIPE, errors=subprocess.STDOUT)
    timed_out = threading.Event()

    def give_up() -> None:
        timed_out.set()
        _kill(process)

    timer = threading.Timer(timeout, give_up) if timeout else None
    if timer:
        timer.start()
    try:
        with log.open("w") as file:
            for text in process.stdout:
                file.write(text)
                file.flush()
                if on_line:
                    on_line(text.rstrip("\n"))
        status = process.wait()
    finally:
        if timer:
            timer.cancel()
        end(process)
    return TIMED_OUT if timed_out.is_set() else status


def end_cleanly(main: Callable[[], int]) -> NoReturn:
    """Exits with what `main` returns; if somebody ends us before, everything we started ends as well."""

    def interrupted(number: int, _frame: object) -> None:
        progress.line(f"ended by {signal.Signals(number).name}")
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    try:
        sys.exit(main())
    finally:
        stop_all()


def stop_all() -> None:
    """Ends whatever other threads are running, for good, so that an interrupted command leaves nothing behind."""
    _stopped.set()
    for process in list(_running):
        _kill(process)


def tail(log: Path, lines: int = 25) -> str:
    """The end of a log, for a failure message."""
    if not log.exists():
        return "(no output)"
    text = log.read_text(errors="replace").rstrip().splitlines()
    return "\n".join(text[-lines:]) or "(no output)"


def _kill(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
