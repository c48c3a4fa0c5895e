"""One guest with its command, or with a shell on the terminal."""

import os
import sys
import termios
from contextlib import contextmanager

from .addresses import as_environment, guest_addresses, wire_addresses
from .machine import Machine
from .request import Request
from .running_guest import RunningGuest
from .session import Outcome, boot_until_it_works, run_to_end, verdict
from .task import Task


def run_single(request: Request, machine: Machine) -> int:
    return _run(request, machine, "command")


def run_shell(request: Request, machine: Machine) -> int:
    with _terminal_restored():
        return _run(request, machine, "shell")


def _run(request: Request, machine: Machine, mode: str) -> int:
    def attempt(is_last: bool) -> int | None:
        with RunningGuest(machine, _task(request, machine, mode), interactive=mode == "shell") as guest:
            outcome = run_to_end([guest], request.time_limit, verbose=request.verbose)
            guest.kill()
            code = verdict(guest, outcome, request.allow_kernel_warnings)
            return None if outcome is Outcome.BOOT_FAILED and not is_last else code

    return boot_until_it_works(attempt)


def _task(request: Request, machine: Machine, mode: str) -> Task:
    addresses = guest_addresses(1)
    if request.wire:
        addresses |= wire_addresses()
    return Task(
        command=request.command,
        environment=request.environment
        | {"RDMAXX_TESTBED": "1", "RDMAXX_TESTBED_KERNEL": machine.boot.version}
        | as_environment(addresses),
        directory=request.directory,
        shared_directories=request.out_directories,
        settings=addresses
        | {
            "mode": mode,
            "network": "single",
            "host_name": "rdmaxx-guest",
            "wire": "yes" if request.wire else "no",
            "loss": f"{request.loss_percent:g}",
            "delay": f"{request.delay_ms:g}",
        }
        | (_terminal_size() if mode == "shell" else {}),
    )


def _terminal_size() -> dict[str, str]:
    size = os.get_terminal_size(sys.stdin.fileno())
    # A terminal that does not know its size says 0, which confuses programs.
    return {"terminal_rows": str(size.lines or 24), "terminal_columns": str(size.columns or 80)}


@contextmanager
def _terminal_restored():
    """QEMU makes the terminal raw; a QEMU that is killed does not undo it."""
    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
