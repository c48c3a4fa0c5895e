"""Another user of the same host tries to hurt a process, in every way that we could think of; and two users who only talk.

The victims are a server and its client, both root's, which go on talking while they are attacked. Afterwards they have the descriptors
and the memory that they had, and are as idle. Everything happens in a network namespace, whose names nobody else sees.
"""

import contextlib
import functools
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rdmaxx_project import background, presets, progress
from rdmaxx_project.repository import BUILD
from rdmaxx_test import peers
from rdmaxx_test.checks import ONLY_ROOT, Finding, Wanted, processes, programs
from rdmaxx_test.peers import Failure, Host, Peer

PRESET = programs.PRESET
LOGS = BUILD / "checks" / "hostile_neighbours"
NETWORK = "10.47.93"
ATTACKS = ("rings", "letters", "requests", "liveness", "port", "datagrams")
CONVERSATIONS = {
    "root serves, another user asks": ([], processes.NOBODY),
    "another user serves, root asks": (processes.NOBODY, []),
}
PORT = 18517

RECOVERY = 10  # seconds until everything is as it was
MORE_DESCRIPTORS = 300  # at most, while it is attacked
MADE_WHEN_NEEDED = 16  # descriptors that a first attack may leave: a process has them once
MORE_MEMORY = 24 << 20  # at most, while it is attacked and afterwards; allocators keep some
IDLE_FOR = 1.0  # seconds
BUSY = 0.3  # a process that uses more of them is not idle


def run(wanted: Wanted) -> Iterable[Finding]:
    names = [*ATTACKS, *CONVERSATIONS]
    if os.geteuid() != 0:
        yield from (Finding(name, skipped=ONLY_ROOT) for name in filter(wanted, names))
        return
    try:
        presets.build(PRESET, "softverbs", "hostile_neighbour", "06_line_server")
    except presets.BuildFailure as failure:
        yield Finding("build", failure.output)
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    cases = {name: functools.partial(_attack, name) for name in ATTACKS}
    cases |= {name: functools.partial(_talk, *users) for name, users in CONVERSATIONS.items()}
    try:
        with peers.two_hosts(NETWORK) as (host, _):
            for name in filter(wanted, names):
                progress.moving(f"hostile neighbours: {name}")
                try:
                    cases[name](host)
                except Failure as failure:
                    yield Finding(name, str(failure))
                else:
                    yield Finding(name)
    except Failure as failure:
        yield Finding("network namespaces", str(failure))


def _attack(name: str, host: Host) -> None:
    hostile = [*host.prefix, *processes.NOBODY, str(_built("tests/hostile_neighbour")), name]

    def attacking() -> Peer:
        return Peer("hostile", hostile, LOGS / f"{name}-hostile.log", {})

    with _victims(host) as (server, client):
        for more in (MADE_WHEN_NEEDED, 0):
            before = _State(server), _State(client)
            with attacking() as attacker:
                attacker.expect(r"done [1-9]\d*")
                client.ask("get colour", "blue")
                for each in before:
                    each.expect_bounded()
            for each in before:
                each.expect_recovered(more)
            client.ask("get colour", "blue")
            client.ask("set colour blue", "ok")
        for each in (server, client):
            if "error" in each.complaints:
                raise Failure(f"a victim complained:\n{each.complaints[-1000:]}")


@contextlib.contextmanager
def _victims(host: Host) -> Iterator[tuple[Peer, Peer]]:
    program = str(_built("examples/06_line_server"))
    environment = {"SOFTVERBS_NETDEVS": f"{host.netdev},lo", "SOFTVERBS_REAL": "0"}

    def start(name: str, *words: str) -> Peer:
        return Peer(name, [*host.prefix, program, *words], LOGS / f"{name}.log", environment)

    with start("server", f"{host.ipv4}:0") as server:
        address = server.expect(r"listening on (.+)")[1]
        with start("client", address, "-") as client:
            client.ask("set colour blue", "ok")
            client.ask("get colour", "blue")
            yield server, client


class _State:
    """What a process uses."""

    def __init__(self, who: Peer):
        self._folder = Path(f"/proc/{who.process}")
        self._descriptors, self._memory = self._use()

    def expect_bounded(self) -> None:
        descriptors, memory = self._use()
        if descriptors > self._descriptors + MORE_DESCRIPTORS:
            raise Failure(f"{descriptors} descriptors under attack, {self._descriptors} before")
        if memory > self._memory + MORE_MEMORY:
            raise Failure(f"{memory >> 20} MiB under attack, {self._memory >> 20} before")

    def expect_recovered(self, more: int) -> None:
        deadline = time.monotonic() + RECOVERY
        while True:
            problem = self._difference(more)
            if not problem:
                return
            if time.monotonic() > deadline:
                raise Failure(f"{problem}, {RECOVERY} s after the attack")

    def _difference(self, more: int) -> str:
        busy = self._cpu_time()
        time.sleep(IDLE_FOR)
        busy = self._cpu_time() - busy
        descriptors, memory = self._use()
        if busy > BUSY:
            return f"busy for {busy:.2f} of {IDLE_FOR} s"
        if descriptors > self._descriptors + more:
            return f"{descriptors} descriptors instead of {self._descriptors}"
        if memory > self._memory + MORE_MEMORY:
            return f"{memory >> 20} MiB instead of {self._memory >> 20}"
        return ""

    def _use(self) -> tuple[int, int]:
        try:
            resident = int((self._folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            return len(list((self._folder / "fd").iterdir())), resident
        except OSError as problem:
            raise Failure(f"a victim has died: {problem}") from problem

    def _cpu_time(self) -> float:
        try:
            fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        except OSError as problem:
            raise Failure(f"a victim has died: {problem}") from problem
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _talk(serving: list[str], asking: list[str], host: Host) -> None:
    """Verbs and the connection manager, through sockets."""
    environment = programs.environment() | {"SOFTVERBS_NETDEVS": f"{host.netdev},lo"}
    for address in ("127.0.0.1", host.ipv4, host.ipv6):
        connection = programs.Connection(f"rping -s -a {address} -p {PORT} -C 20 -v -S 4000", "")
        client = f"rping -c -a {address} -p {PORT} -C 20 -v -S 4000".split()
        server = [*host.prefix, *serving, *connection.server.split()]
        with background.Program(server, LOGS / "talk-server.log", environment) as listening:
            listening.wait_until(functools.partial(connection.is_ready, PORT, listening.process), "listened")
            with background.Program([*host.prefix, *asking, *client], LOGS / "talk-client.log", environment) as asked:
                asked.finish()
                listening.finish()


def _built(path: str) -> Path:
    return presets.directory(PRESET) / path
