"""Runs a client and a server that meet at a port of this machine, as most RDMA programs do."""

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rdmaxx_project import processes

ROCE_PORT = 4791
TCP, UDP, IB = 0x106, 0x111, 0x13F  # port spaces of librdmacm
UDADDY_PORT = 7174  # it has no other
GROUP = "239.47.91.1"  # for what is sent to many
LISTENING = "0A"  # as /proc/net/tcp writes the state
LOOK_AGAIN_AFTER = 0.005  # seconds
TIME_TO_FOLLOW = 10  # seconds that one side has to end after the other failed


_ports_given: set[int] = set()
_ports_lock = threading.Lock()


@dataclass(frozen=True)
class Sides:
    server: list[str]
    clients: list[list[str]]


def free_port() -> int:
    """One that no other caller has been given."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with _ports_lock:
            if port not in _ports_given:
                _ports_given.add(port)
                return port


def run(
    sides: Sides, server_is_ready: Callable[[], bool], logs: Path, environment: Mapping[str, str], timeout: float
) -> str:
    """Returns what went wrong, with the output of all sides; nothing if all exited with 0."""
    server = _Side("server", sides.server, logs, environment, timeout)
    server.start()
    if not _wait(lambda: server_is_ready() or server.has_ended, timeout) or server.has_ended:
        server.stop()
        return _verdict([server], "the server never listened")
    clients = [
        _Side(f"client {number}", command, logs, environment, timeout)
        for number, command in enumerate(sides.clients, 1)
    ]
    for client in clients:
        client.start()
    everybody = [server, *clients]
    _wait(lambda: all(side.has_ended for side in everybody) or any(side.has_failed for side in everybody), timeout)
    _wait(lambda: all(side.has_ended for side in everybody), TIME_TO_FOLLOW)
    for side in everybody:
        side.stop()
    return _verdict(everybody) if any(side.has_failed for side in everybody) else ""


# Of this process's network namespace, or that of another.
OWN = "self"


def is_listening(port: int, process: int | str = OWN) -> bool:
    tables = (Path(f"/proc/{process}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    return any(_has_listener(table, port) for table in tables)


def is_member_of(group: str, port: int, process: int | str = OWN) -> bool:
    """Whether somebody has bound the port of that multicast group."""
    number = int.from_bytes(ipaddress.IPv4Address(group).packed, "little")
    return f" {number:08X}:{port:04X} " in Path(f"/proc/{process}/net/udp").read_text()


def offers_service(port_space: int, port: int, process: int | str = OWN) -> bool:
    """Whether a softverbs process listens there with its connection manager."""
    return f"@softverbs/service/{port_space << 16 | port:x}/" in Path(f"/proc/{process}/net/unix").read_text()


def _has_listener(table: str, port: int) -> bool:
    for line in table.splitlines()[1:]:
        columns = line.split()
        if columns[3] == LISTENING and int(columns[1].rpartition(":")[2], 16) == port:
            return True
    return False


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_AGAIN_AFTER)
    return True


def _verdict(sides: list["_Side"], problem: str = "") -> str:
    return "\n".join(filter(None, [problem, *(side.report() for side in sides)]))


class _Side:
    def __init__(self, name: str, command: list[str], logs: Path, environment: Mapping[str, str], timeout: float):
        self._name = name
        self._command = command
        self._log = logs / f"{name.replace(' ', '-')}.log"
        self._log.unlink(missing_ok=True)
        self._environment = environment
        self._timeout = timeout
        self._status: int | None = None
        self._stopped = False
        self._end: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    @property
    def has_failed(self) -> bool:
        return self.has_ended and self._status != 0

    def stop(self) -> None:
        if not self.has_ended:
            self._stopped = True
            self._end()
        self._thread.join()

    def report(self) -> str:
        ending = f"exit status {self._status}"
        if self._status is None:
            ending = "could not be started"
        elif self._stopped or self._status == processes.TIMED_OUT:
            ending = "still ran and was stopped"
        command = " ".join(self._command)
        return f"--- {self._name} ({ending}): {command}\n{processes.tail(self._log)}"

    def _run(self) -> None:
        def remember(end: Callable[[], None]) -> None:
            self._end = end

        self._status = processes.run(
            self._command,
            self._log,
            timeout=self._timeout,
            environment=self._environment,
            folder=self._log.parent,  # some leave files behind when they crash
            on_start=remember,
        )
