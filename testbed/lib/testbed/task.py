"""What a guest is told to do and what it reports back: files in a directory that host and guest share.

Files, not the kernel's command line: a command may be long and contain any character.
"""

import os
import re
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path

INSIDE = Path(__file__).resolve().parents[2] / "inside"
SCRIPTS = ["start", "network", "wire", "report"]

# The words with which the kernel reports its own bugs. Anchored to how it prints them, because it also logs harmless
# lines about user programs that happen to contain similar words.
KERNEL_WARNING = re.compile(r"WARNING: |BUG: |\bOops\b|Kernel panic|INFO: task .* blocked for more than")


@dataclass
class Task:
    command: list[str]
    environment: dict[str, str]
    directory: Path
    shared_directories: list[Path]
    # Read by the scripts in the guest as shell variables.
    settings: dict[str, str] = field(default_factory=dict)


class ControlDirectory:
    """One guest's control share, seen from the host."""

    def __init__(self, path: Path):
        self.path = path

    def write(self, task: Task) -> None:
        for script in SCRIPTS:
            shutil.copy(INSIDE / script, self.path)
        self._write_list("command", task.command)
        self._write_list("environment", [f"{name}={value}" for name, value in task.environment.items()])
        self._write_list("shared-directories", [str(directory) for directory in task.shared_directories])
        (self.path / "directory").write_bytes(os.fsencode(task.directory))
        assignments = [f"{name}={shlex.quote(value)}\n" for name, value in task.settings.items()]
        (self.path / "settings").write_text("".join(assignments))

    def _write_list(self, name: str, items: list[str]) -> None:
        # The NUL byte is the only one that no argument can contain.
        (self.path / name).write_bytes(b"".join(os.fsencode(item) + b"\0" for item in items))

    @property
    def is_ready(self) -> bool:
        """The guest is up, with its devices, and waits for permission to run the command."""
        return (self.path / "ready").exists()

    def permit(self) -> None:
        (self.path / "go").touch()

    @property
    def status(self) -> int | None:
        """The command's exit code; None if the guest has not come that far."""
        try:
            return int((self.path / "status").read_text())
        except (OSError, ValueError):
            return None

    @property
    def failure(self) -> str | None:
        """Why the guest could not be set up."""
        return self._read("failure")

    @property
    def processes(self) -> str | None:
        """What the guest's programs were doing when the host asked."""
        return self._read("processes")

    def kernel_warnings(self) -> list[str]:
        """The kernel's reports of its own bugs, with the lines that follow each."""
        lines = (self._read("kernel-log") or "").splitlines()
        wanted: set[int] = set()
        for number, line in enumerate(lines):
            if KERNEL_WARNING.search(line):
                wanted.update(range(number, min(number + 25, len(lines))))
        return [lines[number] for number in sorted(wanted)]

    def _read(self, name: str) -> str | None:
        try:
            return (self.path / name).read_text(errors="replace")
        except OSError:
            return None
