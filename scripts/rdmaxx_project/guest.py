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
    peer: list[str | Path] | None = None,
    wire: bool = False,
    loss: int = 0,
    on_line: Callable[[str], None] | None = None,
) -> int:
    """`out` is the only folder that the guest can write to; `timeout` counts the command's seconds.

    With a `peer`, two guests that are joined by a network run a command each. With a `wire`, the guest has two rxe
    devices that are joined by a cable, which loses so many per cent of the packets.
    """
    out.mkdir(parents=True, exist_ok=True)
    choice = [*(["--kernel", kernel] if kernel else []), *(["--wire"] if wire else [])]
    choice += ["--loss", str(loss)] if loss else []
    pair, second = (["--pair"], ["--peer", *peer]) if peer else ([], [])
    return processes.run(
        [GUEST, *choice, *pair, "--timeout", str(timeout), "--out", out, "--", *command, *second],
        log,
        timeout=timeout + BOOT_ALLOWANCE,
        on_line=on_line,
    )
