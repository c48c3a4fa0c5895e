"""Runs commands in the testbed's guest, which has a kernel with RDMA devices."""

from collections.abc import Callable
from pathlib import Path

from rdmaxx_project import processes
from rdmaxx_project.repository import ROOT

GUEST = ROOT / "testbed" / "guest"
BOOT_ALLOWANCE = 600  # seconds, with room for a first boot that unpacks a kernel and builds siw


def run(
    command: list[str | Path],
    out: Path,
    log: Path,
    *,
    timeout: int,
    kernel: str | None = None,
    on_line: Callable[[str], None] | None = None,
) -> int:
    """`out` is the only folder that the guest can write to; `timeout` counts the command's seconds."""
    out.mkdir(parents=True, exist_ok=True)
    choice = ["--kernel", kernel] if kernel else []
    return processes.run(
        [GUEST, *choice, "--timeout", str(timeout), "--out", out, "--", *command],
        log,
        timeout=timeout + BOOT_ALLOWANCE,
        on_line=on_line,
    )
