"""Runs programs of the documents on the software device: alone, or a server and its clients.

What a program is, an HTML comment directly before its block says:

    <!-- snippet-run: server -->                             it listens on port 7471 and ends by itself
    <!-- snippet-run: client 127.0.0.1:7471 => hello -->     its arguments, and what it prints
    <!-- snippet-run: alone => hello -->
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rdmaxx_project import processes

PORT = 7471  # as the documents have it; programs are built with one of this process's own
TIMEOUT = 60  # seconds; an idle machine needs a hundredth of it
ROLES = ("server", "client", "alone")


@dataclass(frozen=True)
class Role:
    kind: str
    arguments: tuple[str, ...] = ()
    printed: str = ""


def read_role(text: str) -> Role | None:
    """None if it is not one."""
    words, _, printed = text.partition("=>")
    kind, *arguments = words.split() or [""]
    return Role(kind, tuple(arguments), printed.strip()) if kind in ROLES else None


def own_port() -> int:
    return 20000 + os.getpid() % 20000


def with_own_port(text: str) -> str:
    return re.sub(rf"\b{PORT}\b", str(own_port()), text)


def environment(library: Path) -> dict[str, str]:
    software_device = {"LD_PRELOAD": str(library), "SOFTVERBS_NETDEVS": "lo", "SOFTVERBS_REAL": "0"}
    return {**os.environ, **software_device}


def run(programs: dict[str, tuple[Path, Role]], variables: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each program by its place: (place, problem)."""
    servers = {place: path for place, (path, role) in programs.items() if role.kind == "server"}
    clients = {place: entry for place, entry in programs.items() if entry[1].kind == "client"}
    for place, (path, role) in programs.items():
        if role.kind == "alone":
            yield place, _problem_of(_finished(path, role, variables), role)
    if bool(servers) != bool(clients) or len(servers) > 1:
        yield from ((place, "a server needs a client, and the other way round") for place in (*servers, *clients))
        return
    for place, path in servers.items():
        for client, entry in clients.items():
            yield from _pair(place, path, client, *entry, variables)


def _pair(
    server: str, program: Path, client: str, client_program: Path, role: Role, variables: dict[str, str]
) -> Iterator[tuple[str, str]]:
    with processes.beside([program], environment=variables, output=subprocess.PIPE) as served:
        try:
            yield client, _problem_of(_once_it_listens(served, client_program, role, variables), role)
            output, _ = served.communicate(timeout=TIMEOUT)
            yield server, "" if served.returncode == 0 else f"ended with {served.returncode}:\n{output[-2000:]}"
        except subprocess.TimeoutExpired:
            yield server, f"did not end within {TIMEOUT} s after its client"


def _once_it_listens(
    server: subprocess.Popen, program: Path, role: Role, variables: dict[str, str]
) -> subprocess.CompletedProcess:
    """The server does not say when it listens; until then its clients are refused."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        finished = _finished(program, role, variables)
        refused = finished.returncode != 0 and "refused" in finished.stdout
        if not refused or server.poll() is not None or time.monotonic() > deadline:
            return finished


def _finished(program: Path, role: Role, variables: dict[str, str]) -> subprocess.CompletedProcess:
    command = [str(program), *map(with_own_port, role.arguments)]
    try:
        return subprocess.run(
            command,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, f"did not end within {TIMEOUT} s")


def _problem_of(finished: subprocess.CompletedProcess, role: Role) -> str:
    if finished.returncode != 0:
        return f"ended with {finished.returncode}:\n{finished.stdout[-2000:]}"
    if role.printed not in finished.stdout:
        return f"printed no `{role.printed}`:\n{finished.stdout[-2000:]}"
    return ""
