"""Processes that are told line by line what to do, and network namespaces for them to meet in.

The program is tests/softverbs/processes/process_peer.cpp, which lists what it understands.
"""

import contextlib
import ipaddress
import itertools
import os
import queue
import re
import resource
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rdmaxx_project import processes
from rdmaxx_project.background import PATIENCE, Failure

WORDS_OF_A_QUEUE = 4  # number, GID, rkey, address
NAMESPACE = "rdmaxx"
IPV4_SETTINGS = "/proc/sys/net/ipv4"


class Peer:
    """A process. Whatever it still does at the end of the `with` is over then."""

    def __init__(self, name: str, command: list[str], log: Path, environment: Mapping[str, str]):
        self._name = name
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as errors:
            self._process = processes.start(
                command, environment=environment, words=subprocess.PIPE, output=subprocess.PIPE, errors=errors
            )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        processes.end(self._process)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._reader.join()
        self._process.stdout.close()

    def tell(self, line: str) -> None:
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failure(f"could not be told “{line}”") from error

    def expect(self, pattern: str) -> re.Match[str]:
        """The next answer, which has to look like that."""
        try:
            answer = self._lines.get(timeout=PATIENCE)
        except queue.Empty:
            raise self._failure(f"did not answer “{pattern}” within {PATIENCE} s") from None
        found = re.fullmatch(pattern, answer)
        if not found:
            raise self._failure(f"answered “{answer}” instead of “{pattern}”")
        return found

    def ask(self, line: str, pattern: str) -> re.Match[str]:
        self.tell(line)
        return self.expect(pattern)

    def queues(self, count: int) -> list[str]:
        """New queue pairs, each as the other side's `connect` wants it."""
        words = self.ask(f"queue {count}", r"queues( .+)*")[0].split()[1:]
        starts = range(0, len(words), WORDS_OF_A_QUEUE)
        return [" ".join(words[start : start + WORDS_OF_A_QUEUE]) for start in starts]

    def stop(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def wait_until_killed(self) -> None:
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise self._failure("did not end") from None
        if status != -signal.SIGKILL:
            raise self._failure(f"ended with {status}")

    @property
    def process(self) -> int:
        return self._process.pid

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextlib.contextmanager
    def no_more_descriptors(self, but: int = 0) -> Iterator[None]:
        """Than it has, and as many as that."""
        before = resource.prlimit(self.process, resource.RLIMIT_NOFILE)
        taken = {int(entry.name) for entry in Path(f"/proc/{self.process}/fd").iterdir()}
        free = (number for number in itertools.count() if number not in taken)
        limit = next(itertools.islice(free, but, None))  # the first number that it cannot have
        resource.prlimit(self.process, resource.RLIMIT_NOFILE, (limit, before[1]))
        try:
            yield
        finally:
            resource.prlimit(self.process, resource.RLIMIT_NOFILE, before)

    @property
    def complaints(self) -> str:
        return self._log.read_text(errors="replace").strip()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put("(nothing more)")

    def _failure(self, what: str) -> Failure:
        return Failure(f"{self._name} {what}\n{self.complaints or '(no output)'}")


def connect(one: Peer, other: Peer, terms: str = "") -> None:
    """A new queue of each, which is their first."""
    _join(one, other, 0, terms)


def connect_twice(one: Peer, other: Peer) -> None:
    """The queues 0 and 1, one after the other."""
    for index in (0, 1):
        _join(one, other, index)


def connect_again(one: Peer, other: Peer) -> None:
    """A new queue of each, which is their second."""
    _join(one, other, 1)


def _join(one: Peer, other: Peer, index: int, terms: str = "") -> None:
    [first], [second] = one.queues(1), other.queues(1)
    one.ask(f"connect {index} {second} {terms}", "connected")
    other.ask(f"connect {index} {first} {terms}", "connected")


@dataclass(frozen=True)
class Host:
    """A network namespace with one end of a cable."""

    namespace: str
    netdev: str
    ipv4: str
    ipv6: str

    @property
    def prefix(self) -> list[str]:
        return ["ip", "netns", "exec", self.namespace]


@contextlib.contextmanager
def two_hosts(
    network: str = "10.47.91", netdevs: tuple[str, str] = ("end1", "end2")
) -> Iterator[tuple[Host, Host]]:
    """Joined by a cable. Names carry the number of this process: remains of others that died are removed."""
    _remove_remains()
    hosts = tuple(
        Host(f"{NAMESPACE}-{os.getpid()}-{end}", netdev, f"{network}.{end}", f"fd47:91::{end}")
        for end, netdev in enumerate(netdevs, 1)
    )
    try:
        for host in hosts:
            _ip("netns", "add", host.namespace)
        one, other = hosts
        peer = ["peer", "name", other.netdev, "netns", other.namespace]
        _ip("-n", one.namespace, "link", "add", one.netdev, "type", "veth", *peer)
        for host in hosts:
            inside = ("-n", host.namespace)
            _ip(*inside, "addr", "add", f"{host.ipv4}/24", "dev", host.netdev)
            _ip(*inside, "addr", "add", f"{host.ipv6}/64", "dev", host.netdev, "nodad")
            _ip(*inside, "link", "set", "lo", "up")
            _ip(*inside, "link", "set", host.netdev, "up")
        yield hosts
    finally:
        for host in hosts:
            with contextlib.suppress(Failure):
                _ip("netns", "del", host.namespace)


def add_address(host: Host, address: str) -> str:
    """To its end of the cable; the GID that it gives."""
    _ip("-n", host.namespace, "addr", "add", f"{address}/24", "dev", host.netdev)
    return bytes(10).hex() + "ffff" + ipaddress.IPv4Address(address).packed.hex()


@contextlib.contextmanager
def ports_in_steps(host: Host, ports: range) -> Iterator[None]:
    """The kernel gives away no other ports."""
    lowest, highest = ports[0], ports[-1]
    reserved = ",".join(f"{port + 1}-{min(port + ports.step, highest + 1) - 1}" for port in ports[:-1])
    settings = {"ip_local_port_range": f"{lowest} {highest}", "ip_local_reserved_ports": reserved}
    before = {name: _run(*host.prefix, "cat", f"{IPV4_SETTINGS}/{name}").strip() for name in settings}
    try:
        _set(host, settings)
        yield
    finally:
        _set(host, before)


def _set(host: Host, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        _run(*host.prefix, "sh", "-c", f"echo '{value}' > {IPV4_SETTINGS}/{name}")


def set_mtu(hosts: tuple[Host, Host], mtu: int) -> None:
    for host in hosts:
        _ip("-n", host.namespace, "link", "set", host.netdev, "mtu", str(mtu))


def _remove_remains() -> None:
    for line in _ip("netns", "list").splitlines():
        found = re.match(rf"({NAMESPACE}-(\d+)-\d)\b", line)
        if found and not Path(f"/proc/{found[2]}").exists():
            _ip("netns", "del", found[1])


def _ip(*words: str) -> str:
    return _run("ip", *words)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
