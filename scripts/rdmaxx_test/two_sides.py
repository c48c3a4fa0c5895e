"""Runs a client and a server that meet at a port of this machine, as most RDMA programs do."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rdmaxx_project.background import Program, wait

ROCE_PORT = 4791
UDADDY_PORT = 7174  # it has no other
GROUP = "239.47.91.1"  # for what is sent to many
TIME_TO_FOLLOW = 10  # seconds that one side has to end after the other failed


@dataclass(frozen=True)
class Sides:
    server: list[str]
    clients: list[list[str]]


def run(
    sides: Sides, server_is_ready: Callable[[], bool], logs: Path, environment: Mapping[str, str], timeout: float
) -> str:
    """Returns what went wrong, with the output of all sides; nothing if all exited with 0."""
    with contextlib.ExitStack() as running:

        def start(name: str, command: list[str]) -> Program:
            # Some leave files behind when they crash: in the folder of the logs.
            return running.enter_context(Program(command, logs / f"{name}.log", environment, folder=logs))

        server = start("server", sides.server)
        if not wait(lambda: server_is_ready() or server.status is not None, timeout) or server.status is not None:
            return "\n".join(["the server never listened", _report("server", server)])
        clients = {f"client-{number}": start(f"client-{number}", each) for number, each in enumerate(sides.clients, 1)}
        everybody = {"server": server, **clients}
        wait(lambda: _all_ended(everybody) or any(side.status for side in everybody.values()), timeout)
        wait(lambda: _all_ended(everybody), TIME_TO_FOLLOW)
        if all(side.status == 0 for side in everybody.values()):
            return ""
        return "\n".join(_report(name, side) for name, side in everybody.items())


def _all_ended(sides: Mapping[str, Program]) -> bool:
    return all(side.status is not None for side in sides.values())


def _report(name: str, side: Program) -> str:
    ending = "still ran and was stopped" if side.status is None else f"exit status {side.status}"
    return f"--- {name} ({ending}): {side}\n{side.tail()}"
