"""A program that runs beside the test, and waiting for what it does."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rdmaxx_project import processes, sockets
from rdmaxx_project.repository import ROOT

PATIENCE = 100  # seconds for what an idle machine does in a tenth of it
LOOK_AGAIN_AFTER = 0.005  # seconds


class Failure(Exception):
    """A process did not do what it was told."""


def wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_AGAIN_AFTER)
    return True


class Program:
    """Any program, with its output in a log. It ends with the `with`."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str], folder: Path = ROOT):
        self._command = command
        self._log = log
        with log.open("w") as output:
            self._process = processes.start(command, environment=environment, folder=folder, output=output)

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        processes.end(self._process)

    @property
    def process(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait_for_listener(self, port: int) -> None:
        self.wait_until(lambda: self._is_listening(port), "listened")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        if not wait(lambda: _is_true(condition) or self.status is not None, PATIENCE) or not _is_true(condition):
            raise self._failure(f"never {what}")

    def __str__(self) -> str:
        return " ".join(self._command)

    def tail(self) -> str:
        """The end of its output, for a failure message."""
        return processes.tail(self._log)

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def wait_for_output(self, text: str, seconds: float) -> None:
        """It may have ended since."""
        if not wait(lambda: text in self.output, seconds):
            raise self._failure(f"did not say {text} within {seconds} s")

    def wait_for_end(self, seconds: float) -> None:
        """Whatever its exit status is."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not end within {seconds} s") from None

    def _is_listening(self, port: int) -> bool:
        return sockets.is_listening(port, self.process)

    def finish(self) -> None:
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise self._failure("did not end") from None
        if status != 0:
            raise self._failure(f"ended with {status}")

    def _failure(self, what: str) -> Failure:
        return Failure(f"{self} {what}\n{self.tail()}")


def _is_true(condition: Callable[[], bool]) -> bool:
    with contextlib.suppress(OSError):  # the process has ended
        return condition()
    return False
