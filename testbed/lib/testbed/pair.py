"""Two guests, a and b, with a network between them."""

import socket
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from .addresses import as_environment, guest_addresses
from .machine import Machine, NetworkCard
from .progress import say
from .request import Request
from .running_guest import RunningGuest
from .session import Outcome, boot_until_it_works, run_to_end, verdict
from .task import Task

KILL_FILE = "kill-peer"


def run_pair(request: Request, machine: Machine) -> int:
    return boot_until_it_works(lambda is_last: _attempt(request, machine, is_last))


def _attempt(request: Request, machine: Machine, is_last: bool) -> int | None:
    with ExitStack() as stack:
        shared = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rdmaxx-testbed-shared.")))
        # One cable for rxe and one for siw. Datagrams keep the frames apart, and sending to a dead guest loses them,
        # just as on a real network.
        cables = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in ("rxe", "siw")]
        commands = [request.command, request.peer_command]
        guests = []
        for index, role in enumerate("ab"):
            cards = [
                NetworkCard(guest_addresses(index + 1)[f"{device}_mac"], cable[index].fileno())
                for device, cable in zip(("rxe", "siw"), cables)
            ]
            task = _task(request, machine, index, role, commands[index], shared)
            guests.append(stack.enter_context(RunningGuest(replace(machine, cards=cards), task, name=role)))
        for cable in cables:
            for end in cable:
                end.close()
        outcome = run_to_end(guests, request.time_limit, PeerKiller(request, shared), verbose=request.verbose)
        for guest in guests:
            guest.kill()
        code = _worst_verdict(request, guests, outcome)
        return None if outcome is Outcome.BOOT_FAILED and not is_last else code


class PeerKiller:
    """Kills guest b when its time has come, or when the kill file appears."""

    def __init__(self, request: Request, shared: Path):
        self._after = request.kill_peer_after
        self._file = shared / KILL_FILE
        self._commands_started_at: float | None = None

    def __call__(self, guests: list[RunningGuest]) -> None:
        now = time.monotonic()
        if self._commands_started_at is None:
            self._commands_started_at = now
        peer = guests[1]
        is_due = self._after is not None and now >= self._commands_started_at + self._after
        if (is_due or self._file.exists()) and not peer.has_ended:
            peer.kill()
            peer.was_sacrificed = True
            say(f"{peer.label} was killed, as asked")


def _task(
    request: Request, machine: Machine, index: int, role: str, command: list[str], shared: Path
) -> Task:
    own, peer = guest_addresses(index + 1), guest_addresses(2 - index)
    return Task(
        command=command,
        environment=request.environment
        | {
            "RDMAXX_TESTBED": "1",
            "RDMAXX_TESTBED_KERNEL": machine.boot.version,
            "RDMAXX_TESTBED_ROLE": role,
            "RDMAXX_TESTBED_SHARED": str(shared),
        }
        | as_environment(own)
        | as_environment(peer, "PEER_"),
        directory=request.directory,
        shared_directories=[*request.out_directories, shared],
        settings=own | {"mode": "command", "network": "pair", "host_name": f"rdmaxx-guest-{role}", "wire": "no"},
    )


def _worst_verdict(request: Request, guests: list[RunningGuest], outcome: Outcome) -> int:
    """The first exit code that is not zero; a guest that was meant to die has none."""
    codes = [
        verdict(guest, outcome, request.allow_kernel_warnings)
        for guest in guests
        if not guest.was_sacrificed
    ]
    return next((code for code in codes if code != 0), 0)
