"""One guest with its command, or with a shell on the terminal."""

import os
import sys
import termios
from contextlib import contextmanager

from .addresses import as_environment, guest_addresses, wire_addresses
from .machine import Machine
from .request import Request
from .running_guest import RunningGuest
from .session import run_to_end, verdict
from .task import Task


def run_single(request: Request, machine: Machine) -> int:
    return _run(request, machine, "command")


def run_shell(request: Request, machine: Machine) -> int:
    with _terminal_restored():
        return _run(request, machine, "shell")


def _run(request: Request, machine: Machine, mode: str) -> int:
    with RunningGuest(machine, _task(request, machine, mode), interactive=mode == "shell") as guest:
        in_time = run_to_end([guest], request.time_limit, verbose=request.verbose)
        guest.kill()
        return verdict(guest, in_time, request.allow_kernel_warnings)


def _task(request: Request, machine: Machine, mode: str) -> Task:
    addresses = guest_addresses(1)
    if request.wire:
        addresses |= wire_addresses()
    terminal = os.get_terminal_size(sys.stdin.fileno()) if mode == "shell" else os.terminal_size((80, 24))
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
            "terminal_rows": str(terminal.lines),
            "terminal_columns": str(terminal.columns),
        },
    )


@contextmanager
def _terminal_restored():
    """QEMU makes the terminal raw; a QEMU that is killed does not undo it."""
    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
