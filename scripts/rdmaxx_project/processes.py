"""Runs a program with its output in a log file, within a time limit, and leaves nothing behind."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from rdmaxx_project import progress
from rdmaxx_project.repository import ROOT

TIMED_OUT = 124  # as timeout(1) reports it

_running: set[subprocess.Popen] = set()
_stopped = threading.Event()


def run(
    command: list[str | Path],
    log: Path,
    *,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    on_line: Callable[[str], None] | None = None,
    on_start: Callable[[Callable[[], None]], None] | None = None,
) -> int:
    """Returns the exit status.

    `on_line` sees every line of output as it comes; `on_start` is given a function that ends the program.
    """
    if _stopped.is_set():
        raise InterruptedError(f"not started, because everything is being stopped: {command[0]}")
    log.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    _running.add(process)
    if on_start:
        on_start(lambda: _kill(process))
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
        _kill(process)
        _running.discard(process)
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
