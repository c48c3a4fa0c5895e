"""Runs cases of interoperation in the testbed's guest, and prints one line of JSON for each: its name and its problem.

As a program, in the guest: python3 -m rdmaxx_test.interoperation_guest LIBRARY LOGS [CASE…]

The kernel's device is in the initial network namespace, because rxe works in no other; the soft one has a namespace of
its own, and a cable joins them.
"""

import contextlib
import ipaddress
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rdmaxx_project import background, processes, sockets
from rdmaxx_test import interoperation_cases as cases
from rdmaxx_test import peers, two_sides
from rdmaxx_test.interoperation_cases import Case, Meeting, Side

NAMESPACE = "soft"
# What softverbs asks for. With the kernel's own limit, a train of packets that rxe sends does not fit.
LARGEST_BUFFER = 4 << 20
TIME_TO_REFUSE = 10  # seconds; who hears nothing gives up after a minute
REFUSED = "RDMA_CM_EVENT_REJECTED, error {reason}"  # as rping prints it


@dataclass(frozen=True)
class End:
    """One end of the cable."""

    netdev: str
    device: str
    ipv4: str
    ipv6: str
    prefix: tuple[str, ...]  # of commands that run there
    process: int | str  # any that is in that namespace

    def address(self, ipv6: bool) -> str:
        return self.ipv6 if ipv6 else self.ipv4


class Stage:
    """The two ends, and what is known about them while the cable stays as it is."""

    def __init__(self, library: str, holder: int):
        inside = ("ip", "netns", "exec", NAMESPACE)
        settings = ("SOFTVERBS_CM=soft", "SOFTVERBS_REAL=0", "SOFTVERBS_NETDEVS=vs", f"LD_PRELOAD={library}")
        self.ends = {
            Side.KERNEL: End("vk", "rxek", "10.80.0.1", "fd80::1", (), sockets.OWN),
            Side.SOFT: End("vs", "soft_vs", "10.80.0.2", "fd80::2", (*inside, "env", *settings), holder),
        }
        self._gids: dict[Side, str] = {}

    def lay(self, cable: cases.Cable) -> None:
        for end, namespace in ((self.ends[Side.KERNEL], ()), (self.ends[Side.SOFT], ("-n", NAMESPACE))):
            _do("ip", *namespace, "link", "set", end.netdev, "mtu", str(cable.mtu))
            if cable.loss:
                _do("tc", *namespace, "qdisc", "replace", "dev", end.netdev, "root", "netem", "loss", cable.loss)
        self._gids.clear()

    def command(self, case: Case, side: Side, text: str) -> list[str]:
        end, ipv6 = self.ends[side], case.program.ipv6
        # Programs that exchange addresses by a socket do it over IPv4; the GID decides what carries the rest.
        by_gid = case.program.meeting is Meeting.SOCKET
        words = text.format(
            address=self.ends[case.server].address(ipv6 and not by_gid),
            port=case.port,
            elsewhere=cases.NOBODYS_PORT,
            own=end.address(ipv6),
            device=end.device,
            gid=self._gid(side, ipv6) if by_gid else "",
        )
        settings = [f"{name}={value}" for name, value in case.program.settings.items()]
        return [*end.prefix, *(settings if side is Side.SOFT else []), *shlex.split(words)]

    def _gid(self, side: Side, ipv6: bool) -> int:
        end = self.ends[side]
        if side not in self._gids:
            self._gids[side] = _do(*end.prefix, "ibv_devinfo", "-v", "-d", end.device)
        wanted = end.ipv6 if ipv6 else f"::ffff:{end.ipv4}"
        for index, gid in re.findall(r"GID\[ *(\d+)\]:\s+([^\s,]+)", self._gids[side]):
            if gid == wanted:
                return int(index)
        raise RuntimeError(f"{end.device} has no GID {wanted}:\n{self._gids[side]}")

    def is_ready(self, case: Case) -> bool:
        process, meeting = self.ends[case.server].process, case.program.meeting
        if meeting is Meeting.SOCKET:
            return sockets.is_listening(case.port, process)
        if meeting is Meeting.MULTICAST:
            in_kernel = case.server is Side.KERNEL
            return _kernel_is_member() if in_kernel else sockets.is_member_of(two_sides.GROUP, two_sides.ROCE_PORT, process)
        space = sockets.UDP if meeting is Meeting.DATAGRAM_LISTENER else sockets.TCP
        if case.server is Side.SOFT:
            return sockets.offers_service(space, case.port, process)
        return _kernel_listens("UDP" if space == sockets.UDP else "TCP", case.port)


def _kernel_listens(port_space: str, port: int) -> bool:
    return any(
        each.get("state") == "LISTEN"
        and each.get("ps") == port_space
        and each.get("src-addr", "").endswith(f":{port}")
        for each in json.loads(_do("rdma", "-j", "resource", "show", "cm_id") or "[]")
    )


def _kernel_is_member() -> bool:
    """rxe takes an Ethernet address for a group when a queue pair is attached, that of an IPv6 group."""
    return f" 3333{ipaddress.IPv4Address(two_sides.GROUP).packed.hex()}" in Path("/proc/net/dev_mcast").read_text()


def _do(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def _stage(library: str) -> Iterator[Stage]:
    Path("/proc/sys/net/core/rmem_max").write_text(str(LARGEST_BUFFER))
    _do("ip", "netns", "add", NAMESPACE)
    # Keeps the namespace's part of /proc in sight.
    with processes.beside(["ip", "netns", "exec", NAMESPACE, "sleep", "infinity"]) as holder:
        stage = Stage(library, holder.pid)
        _do("ip", "link", "add", "vk", "type", "veth", "peer", "name", "vs", "netns", NAMESPACE)
        _do("ip", "-n", NAMESPACE, "link", "set", "lo", "up")
        for end, namespace in ((stage.ends[Side.KERNEL], ()), (stage.ends[Side.SOFT], ("-n", NAMESPACE))):
            _do("ip", *namespace, "addr", "add", f"{end.ipv4}/24", "dev", end.netdev)
            _do("ip", *namespace, "addr", "add", f"{end.ipv6}/64", "dev", end.netdev, "nodad")
            _do("ip", *namespace, "link", "set", end.netdev, "up")
        _do("rdma", "link", "add", stage.ends[Side.KERNEL].device, "type", "rxe", "netdev", "vk")
        yield stage


def _problem(stage: Stage, case: Case, logs: Path) -> str:
    server = stage.command(case, case.server, case.program.server)
    client = stage.command(case, case.server.other, case.program.client)
    if case.program.meeting is Meeting.REFUSED:
        # A server that was never called ends only when it is told to.
        with background.Program(server, logs / "server.log", {}) as serving:
            serving.wait_until(lambda: stage.is_ready(case), "listened")
            return _refusal(client, logs / "client-1.log", case.program.refusal)
    sides = two_sides.Sides(server, [client])
    return two_sides.run(sides, lambda: stage.is_ready(case), logs, {}, case.cable.timeout)


def _refusal(command: list[str], log: Path, reason: int) -> str:
    started = time.monotonic()
    status = processes.run(command, log, timeout=TIME_TO_REFUSE)
    seconds = time.monotonic() - started
    told = re.search(re.escape(REFUSED.format(reason=reason)) + r"\b", log.read_text(errors="replace"))
    if status not in (0, processes.TIMED_OUT) and told:
        return ""
    return f"--- exit status {status} after {seconds:.1f} s: {' '.join(command)}\n{processes.tail(log)}"


def main() -> int:
    library, logs, *names = sys.argv[1:]
    laid = None
    with _stage(library) as stage:
        for case in cases.ALL:
            if case.name not in names:
                continue
            if laid is not case.cable:
                laid = case.cable
                stage.lay(laid)
            started = time.monotonic()
            try:
                problem = _problem(stage, case, Path(logs))
            except (RuntimeError, peers.Failure) as failure:
                problem = str(failure)
            result = {"case": case.name, "seconds": round(time.monotonic() - started, 1), "problem": problem}
            print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    processes.end_cleanly(main)
