"""One guest from start to end: QEMU, the control share, the forwarded output."""

import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from .machine import Machine, Share
from .output import Forwarder
from .packages import program
from .progress import say
from .task import ControlDirectory, Task

CONSOLE_LINES_SHOWN = 60
REPORT_SECONDS = 30


class RunningGuest:
    """A context manager: however it is left, QEMU is gone and so are the guest's temporary files."""

    def __init__(self, machine: Machine, task: Task, name: str = "", interactive: bool = False):
        self.name = name
        self.label = f"guest {name}" if name else "the guest"
        self.was_sacrificed = False  # killed because the user wanted to see what its peer does then
        self._scratch = tempfile.TemporaryDirectory(prefix="rdmaxx-testbed.")
        scratch = Path(self._scratch.name)
        self._console_log = scratch / "console"
        self._qemu_errors = scratch / "qemu-errors"
        control = scratch / "control"
        control.mkdir()
        self.control = ControlDirectory(control)
        self.control.write(task)
        self._interactive = interactive
        self._machine = replace(
            machine,
            console_log=self._console_log,
            terminal=interactive,
            shares=[
                Share("host", Path("/"), read_only=True),
                Share("control", control),
                *(Share(f"share{number}", path) for number, path in enumerate(task.shared_directories)),
            ],
        )
        self._forwarders: list[Forwarder] = []
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "RunningGuest":
        self._report_request, report_port = socket.socketpair()
        guest_ends = [report_port] if self._interactive else [report_port, self._forward(1), self._forward(2)]
        machine = replace(self._machine, ports=[end.fileno() for end in guest_ends])
        # QEMU dies with us even if we are killed outright. In a session of its own, it does not get the terminal's
        # Ctrl-C: we do, and end it in good order. An interactive one must stay in ours to be able to read the terminal.
        command = [program("setpriv"), "--pdeathsig", "KILL", *machine.command_line()]
        with open(self._qemu_errors, "wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=None if self._interactive else subprocess.DEVNULL,
                stdout=None if self._interactive else errors,
                stderr=errors,
                start_new_session=not self._interactive,
                pass_fds=machine.inherited_descriptors(),
            )
        self.started_at = time.monotonic()
        for end in guest_ends:
            end.close()
        return self

    def __exit__(self, *_) -> None:
        self.kill()
        self._report_request.close()
        self._scratch.cleanup()

    def _forward(self, target: int) -> socket.socket:
        our_end, guest_end = socket.socketpair()
        forwarder = Forwarder(our_end, target, f"[{self.name}] " if self.name else "")
        forwarder.start()
        self._forwarders.append(forwarder)
        return guest_end

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def output_is_closed(self) -> bool:
        """Nobody reads our output any more, so there is no point in going on."""
        return any(forwarder.target_is_closed for forwarder in self._forwarders)

    def kill(self) -> None:
        """Ends the guest at once, as a power cut would, if it has not ended yet; then all its output is here."""
        if not self.has_ended:
            self._process.kill()
            self._process.wait()
        for forwarder in self._forwarders:
            forwarder.join()

    def show_processes(self) -> None:
        """Asks the guest, if it still listens, what its programs are doing, and prints the answer."""
        self._report_request.sendall(b"report\n")
        deadline = time.monotonic() + REPORT_SECONDS
        while self.control.processes is None and not self.has_ended and time.monotonic() < deadline:
            time.sleep(0.1)
        if self.control.processes is None:
            say(f"{self.label} does not say what its programs are doing")
        else:
            self._show("what its programs are doing", self.control.processes.splitlines())

    def show_console(self) -> None:
        """Prints the end of the guest's console, and what QEMU complained about, for somebody to find out why."""
        for title, path in (("what QEMU said", self._qemu_errors), ("the console's last lines", self._console_log)):
            try:
                lines = path.read_text(errors="replace").replace("\r", "").splitlines()
            except OSError:
                lines = []
            if lines:
                self._show(title, lines[-CONSOLE_LINES_SHOWN:])

    def _show(self, title: str, lines: list[str]) -> None:
        say(f"{self.label}: {title}:")
        print(*(f"    {line}" for line in lines), sep="\n", file=sys.stderr, flush=True)
