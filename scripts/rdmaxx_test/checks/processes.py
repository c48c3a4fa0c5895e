"""Many processes, on one host and on two: what they move arrives, whatever happens to the others.

Two hosts are two network namespaces with a cable between them, which needs root. Nothing leaves this machine.
"""

import contextlib
import functools
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rdmaxx_project import background, presets, progress
from rdmaxx_project.repository import BUILD
from rdmaxx_test import peers
from rdmaxx_test.checks import ONLY_ROOT, Finding, Wanted, programs
from rdmaxx_test.peers import Failure, Host, Peer

PRESET = programs.PRESET
LOGS = BUILD / "checks" / "processes"
KIB, MIB = 1 << 10, 1 << 20
FAULTS = "loss=0.01,duplicate=0.01,reorder=0.01,corrupt=0.01,seed=7"
SOCKETS = {"SOFTVERBS_SHM": "0"}
SENDERS = 16
RING = 64
SHARERS = 8

Settings = dict[str, str]
Case = Callable[[], None]


def run(wanted: Wanted) -> Iterable[Finding]:
    try:
        presets.build(PRESET, "softverbs", "process_peer", "device_tests")
    except presets.BuildFailure as failure:
        yield Finding("build", failure.output)
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    yield from _findings(ON_ONE_HOST, wanted)
    if os.geteuid() != 0:
        yield from (Finding(name, skipped=ONLY_ROOT) for name in _on_two_hosts(NO_HOSTS) if wanted(name))
        return
    try:
        with peers.two_hosts() as hosts:
            yield from _findings(_on_two_hosts(hosts), wanted)
    except Failure as failure:
        yield Finding("two hosts", str(failure))


def _findings(cases: dict[str, Case], wanted: Wanted) -> Iterator[Finding]:
    for name, case in cases.items():
        if not wanted(name):
            continue
        progress.moving(f"processes: {name}")
        try:
            case()
        except Failure as failure:
            yield Finding(name, str(failure))
        else:
            yield Finding(name)


class Cast(contextlib.ExitStack):
    """The processes of one case."""

    def __init__(self, settings: Settings | None = None):
        super().__init__()
        self._settings = settings or {}
        self._count = 0

    def start(self, host: Host | None = None, *, ipv6: bool = False, prefix: Iterable[str] = ()) -> Peer:
        """`prefix` is a command that runs another."""
        self._count += 1
        name = f"process {self._count}"
        netdev = host.netdev if host else "lo"
        device = f"soft_{netdev}" if host else programs.DEVICE
        command = [*(host.prefix if host else []), *prefix, str(_program()), device, "6" if ipv6 else "4"]
        environment = {"SOFTVERBS_NETDEVS": netdev, "SOFTVERBS_REAL": "0", **self._settings}
        return self.enter_context(Peer(name, command, LOGS / f"{name.replace(' ', '-')}.log", environment))


def _program() -> Path:
    return presets.directory(PRESET) / "tests/process_peer"


def _together(everybody: Iterable[Peer], command: str) -> None:
    for each in everybody:
        each.tell(command)
    for answer in ("moving", "done"):
        for each in everybody:
            each.expect(answer)


def _transfer(one: Peer, other: Peer, size: int, count: int, *, back: bool = True) -> None:
    """Messages in one direction or, at the same time, in both."""
    _begin_transfer(one, other, size, count, back=back)
    for each in (one, other):
        each.expect("moving")
    for each in (one, other):
        each.expect("done")


def _begin_transfer(one: Peer, other: Peer, size: int, count: int, *, back: bool = True) -> None:
    returned = count if back else 0
    one.tell(f"transfer {size} 0:{count}:{returned}")
    other.tell(f"transfer {size} 0:{returned}:{count}")


# --- one host ---------------------------------------------------------------------------------


def _many_to_one(settings: Settings) -> None:
    count, size = 60, 32 * KIB
    with Cast(settings | {"SOFTVERBS_SOCKET_BUFFER": "64K"}) as cast:
        receiver = cast.start()
        senders = [cast.start() for _ in range(SENDERS)]
        for index, (sender, ours) in enumerate(zip(senders, receiver.queues(SENDERS), strict=True)):
            [theirs] = sender.queues(1)
            sender.ask(f"connect 0 {ours}", "connected")
            receiver.ask(f"connect {index} {theirs}", "connected")
        receiver.tell(f"transfer {size} " + " ".join(f"{index}:0:{count}" for index in range(SENDERS)))
        for sender in senders:
            sender.tell(f"transfer {size} 0:{count}:0")
        for each in (receiver, *senders):
            each.expect("moving")
        for each in (receiver, *senders):
            each.expect("done")


def _ring() -> None:
    with Cast() as cast:
        members = [cast.start() for _ in range(RING)]
        queues = [member.queues(2) for member in members]  # 0 towards the next, 1 towards the one before
        for index, member in enumerate(members):
            member.ask(f"connect 0 {queues[(index + 1) % RING][1]}", "connected")
            member.ask(f"connect 1 {queues[index - 1][0]}", "connected")
        _together(members, f"transfer {8 * KIB} 0:50:50 1:50:50")


def _faults(settings: Settings, count: int) -> None:
    with Cast(settings | {"SOFTVERBS_FAULTS": FAULTS}) as cast:
        one, other = cast.start(), cast.start()
        peers.connect(one, other)
        _transfer(one, other, MIB, count, back=False)
        one.ask(f"operate 20 {256 * KIB}", "done")


def _everything_lost(settings: Settings) -> None:
    timeout, retries = 13, 3
    at_least = 4.096 * 2**timeout * (retries + 1)  # µs
    with Cast(settings | {"SOFTVERBS_FAULTS": "loss=1"}) as cast:
        one, other = cast.start(), cast.start()
        peers.connect(one, other, f"{timeout} {retries}")
        one.ask(f"flood {KIB}", "moving")
        waited = int(one.expect(r"failed RETRY_EXC after (\d+)")[1])
    if waited < at_least:
        raise Failure(f"the queue pair failed after {waited} µs, not before {at_least} are over")


def _killed(settings: Settings, seed: int) -> None:
    chance = random.Random(seed)
    for size in (4 * KIB, 100_000, MIB):
        with Cast(settings) as cast:
            survivor, victim = cast.start(), cast.start()
            peers.connect(survivor, victim, "10 5")
            victim.ask(f"receive_and_die {size} {chance.randrange(1, 100)}", "receiving")
            survivor.ask(f"flood {size}", "moving")
            victim.wait_until_killed()
            survivor.expect(r"failed RETRY_EXC after \d+")


ON_ONE_HOST: dict[str, Case] = {
    "16 senders, one small receive buffer": lambda: _many_to_one(SOCKETS),
    "16 senders, shared memory": lambda: _many_to_one({}),
    "64 processes in a ring": _ring,
    "faults, 1 GiB": lambda: _faults({}, 1024),
    "faults, 64 MiB through sockets": lambda: _faults(SOCKETS, 64),
    "everything is lost": lambda: _everything_lost({}),
    "everything is lost, sockets": lambda: _everything_lost(SOCKETS),
    "peer killed under load": lambda: _killed({}, 1),
    "peer killed under load, sockets": lambda: _killed(SOCKETS, 2),
    "connections over a lossy path": lambda: _connections_over_a_lossy_path(),
    "connected client killed": lambda: _connection_ends((None, None), server_dies=False),
    "connected server killed": lambda: _connection_ends((None, None), server_dies=True),
}


# --- two hosts --------------------------------------------------------------------------------


Hosts = tuple[Host, Host]
PORT = 18515
OTHER_PORT = 18516
ENDLESS = programs.Connection(
    "rping -s -a 127.0.0.1 -p {port} -v", "rping -c -a 127.0.0.1 -p {port} -C 100000000 -v"
)
NOTICED_WITHIN = 1  # seconds, on the same host
NOTICED_ELSEWHERE_WITHIN = 8  # the retries of rping's queue pair take 17
ENDS_WITHIN = 8
ACROSS = [
    "ibv_rc_pingpong -c -n 100",
    "ibv_rc_pingpong -c -e",
    "ibv_ud_pingpong -c -n 100",
    *(f"ib_{operation}_bw -F -n 100" for operation in ("send", "write", "read")),
]
PORTS_OF_ONE_SLOT = range(40_000, 41_000, 63)  # host_protocol::port_slots - 1
IDLE_FOR = 1.0  # seconds
BUSY = 0.3  # a process that uses more of them is not idle
QUEUES_OF_A_PORT = 256
TRAIN = """
import socket, struct, sys
to, *numbers = sys.argv[1:]
acknowledge, segment_option = 0x11, 103  # UDP_SEGMENT
packets = [struct.pack(">BBHII", acknowledge, 0, 0xffff, int(number), 0) + bytes(8) for number in numbers]
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.setsockopt(socket.IPPROTO_UDP, segment_option, len(packets[0]))
line.sendto(b"".join(packets), (to, 4791))
print("sent", flush=True)
"""
SQUATTER = """
import socket, sys
name, listens = sys.argv[1:]
place = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
place.bind(chr(0) + name)
if listens == "1":
    place.listen()
print("held", flush=True)
sys.stdin.read()
"""
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
OWN_PIDS = ["unshare", "--pid", "--fork", "--kill-child"]
OWN_SHM = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]


def _two_hosts_talk(hosts: Hosts, *, mtu: int, ipv6: bool = False, settings: Settings | None = None) -> None:
    peers.set_mtu(hosts, mtu)
    with Cast(settings) as cast:
        one, other = (cast.start(host, ipv6=ipv6) for host in hosts)
        peers.connect(one, other)
        _transfer(one, other, MIB, 16)
        _transfer(one, other, 100, 1000)
        one.ask(f"operate 20 {MIB}", "done")


def _meeting(hosts: Hosts, command: str) -> None:
    """Programs of the distribution; their TCP line goes through the cable, too."""
    peers.set_mtu(hosts, 1500)
    server, client = hosts
    gid = ["-x" if command.startswith("ib_") else "-g", "1"]
    words = [*command.split(), "-p", str(PORT), *gid, "-d"]

    def start(host: Host, log: str, *more: str) -> background.Program:
        environment = programs.environment() | {"SOFTVERBS_NETDEVS": host.netdev}
        return background.Program([*host.prefix, *words, f"soft_{host.netdev}", *more], LOGS / log, environment)

    with start(server, "server.log") as listening:
        listening.wait_for_listener(PORT)
        with start(client, "client.log", server.ipv4) as asking:
            asking.finish()
            listening.finish()


def _connected(hosts: Hosts, connection: programs.Connection) -> None:
    """Programs that connect by librdmacm."""
    peers.set_mtu(hosts, 1500)
    with _started(hosts, connection) as (server, client):
        client.finish()
        server.finish()


@contextlib.contextmanager
def _started(
    hosts: Hosts | tuple[None, None], connection: programs.Connection, settings: Settings | None = None
) -> Iterator[tuple[background.Program, background.Program]]:
    server, client = hosts

    def start(command: str, host: Host | None, log: str) -> background.Program:
        meeting_at = client if command.startswith("mckey") and host is client else server
        if meeting_at:
            command = re.sub(r"::1\b", meeting_at.ipv6, command.replace("127.0.0.1", meeting_at.ipv4))
        environment = programs.environment() | ({"SOFTVERBS_NETDEVS": host.netdev} if host else {}) | (settings or {})
        words = command.format(port=PORT).split()
        return background.Program([*(host.prefix if host else []), *words], LOGS / log, environment)

    with start(connection.server, server, "server.log") as listening:
        listening.wait_until(lambda: connection.is_ready(PORT, listening.process), "listened")
        with start(connection.client, client, "client.log") as asking:
            yield listening, asking


def _connections_over_a_lossy_path() -> None:
    """Messages of the connection manager are lost, doubled, overtaken and damaged as all others."""
    connection = programs.Connection(
        "ucmatose -b 127.0.0.1 -p {port} -c 10 -C 5", "ucmatose -s 127.0.0.1 -p {port} -c 10 -C 5"
    )
    faults = {"SOFTVERBS_FAULTS": "loss=0.2,duplicate=0.1,reorder=0.1,corrupt=0.05,seed=1"}
    with _started((None, None), connection, faults) as (server, client):
        client.finish()
        server.finish()


def _connection_ends(hosts: Hosts | tuple[None, None], *, server_dies: bool) -> None:
    """One side is killed under load; the other is told, long before its queue pair would notice."""
    with _started(hosts, ENDLESS) as (server, client):
        client.wait_until(lambda: client.output.count("ping data") > 100, "moved anything")
        victim, survivor = (server, client) if server_dies else (client, server)
        victim.kill()
        within = NOTICED_WITHIN if hosts[0] is hosts[1] else NOTICED_ELSEWHERE_WITHIN
        survivor.wait_for_output("DISCONNECT", within)
        survivor.wait_for_end(ENDS_WITHIN)


def _neighbour_says_goodbye(hosts: Hosts) -> None:
    """A process is killed; another one of its host, which it never talked to, tells its peer."""
    _, there = hosts
    bystander = programs.Connection("rping -s -a 127.0.0.1 -p {port}", "")
    command = bystander.server.replace("127.0.0.1", there.ipv4).format(port=OTHER_PORT).split()
    environment = programs.environment() | {"SOFTVERBS_NETDEVS": there.netdev}
    with background.Program([*there.prefix, *command], LOGS / "bystander.log", environment) as neighbour:
        neighbour.wait_until(lambda: bystander.is_ready(OTHER_PORT, neighbour.process), "listened")
        _connection_ends(hosts, server_dies=False)


def _killed_alone(hosts: Hosts) -> None:
    """The only process of its host is killed: nobody can say so, and what is sent next fails."""
    here, there = hosts
    program = str(presets.directory(PRESET) / "examples/06_line_server")

    def start(name: str, host: Host, *words: str) -> Peer:
        environment = {"SOFTVERBS_NETDEVS": host.netdev, "SOFTVERBS_REAL": "0"}
        return Peer(name, [*host.prefix, program, *words], LOGS / f"{name}.log", environment)

    with start("lonely-server", there, f"{there.ipv4}:0") as server:
        address = server.expect(r"listening on (.+)")[1]
        with start("lonely-client", here, address, "-") as client:
            client.ask("set colour blue", "ok")
            server.kill()
            client.tell("get colour")
            client.expect(r"\(nothing more\)")
            if "retry_exceeded" not in client.complaints:
                raise Failure(f"it ended otherwise:\n{client.complaints}")


def _port_goes_down(hosts: Hosts) -> None:
    """The test that other devices pass in the testbed, with an interface that may be taken down here, too."""
    host = hosts[0]
    command = [str(presets.directory(PRESET) / "tests/device_tests"), "--gtest_filter=async_events.*"]
    environment = {
        "RDMAXX_TESTBED": "1",
        "RDMAXX_TEST_DEVICE": f"soft_{host.netdev}",
        "SOFTVERBS_NETDEVS": host.netdev,
        "SOFTVERBS_REAL": "0",
    }
    with background.Program([*host.prefix, *command], LOGS / "port.log", environment) as tests:
        tests.finish()


def _late_address(hosts: Hosts) -> None:
    with Cast() as cast:
        pair = [cast.start(host) for host in hosts]
        peers.connect(*pair)
        for number, (each, host) in enumerate(zip(pair, hosts, strict=True), start=1):
            gid = peers.add_address(host, f"10.47.92.{number}")
            each.ask(f"use {gid}", "used")
        [first], [second] = (each.queues(1) for each in pair)
        pair[0].ask(f"connect 1 {second}", "connected")
        pair[1].ask(f"connect 1 {first}", "connected")
        _together(pair, f"transfer {64 * KIB} 0:50:50 1:50:50")


def _owner_ends(hosts: Hosts) -> None:
    """The one that came first on both hosts is stopped and then killed."""
    peers.set_mtu(hosts, 1500)
    here, there = hosts
    with Cast() as cast:
        owner, abandoned = cast.start(here), cast.start(there)
        peers.connect(owner, abandoned)
        pairs = [(cast.start(here), cast.start(there)) for _ in range(2)]
        for one, other in pairs:
            peers.connect(one, other)
        for each in (owner, abandoned):
            each.ask("flood 20000", "moving")

        _all_move(pairs, during=owner.stop)
        abandoned.expect(r"failed RETRY_EXC after \d+")
        _all_move(pairs, during=owner.kill)

        newcomers = cast.start(here), cast.start(there)
        peers.connect(*newcomers)
        _all_move([*pairs, newcomers], during=abandoned.kill)


def _all_move(pairs: list[tuple[Peer, Peer]], during: Callable[[], None]) -> None:
    everybody = [each for pair in pairs for each in pair]
    for one, other in pairs:
        _begin_transfer(one, other, 64 * KIB, 128)
    for each in everybody:
        each.expect("moving")
    during()
    for each in everybody:
        each.expect("done")


def _in_order(hosts: Hosts, *, ipv6: bool = False) -> None:
    """Eight processes on each host, each with flows to and from two others: nothing is lost, so no packet is missed."""
    peers.set_mtu(hosts, 1500)
    here, there = hosts
    with Cast({"SOFTVERBS_LOG": "debug"}) as cast:
        ours = [cast.start(here, ipv6=ipv6) for _ in range(SHARERS)]
        theirs = [cast.start(there, ipv6=ipv6) for _ in range(SHARERS)]
        for index, one in enumerate(ours):
            peers.connect(one, theirs[index])
        for index, one in enumerate(ours):
            peers.connect_again(one, theirs[index - 1])
        everybody = [*ours, *theirs]
        _together(everybody, f"transfer {64 * KIB} 0:100:100 1:100:100")
        gaps = [each.complaints.count("of a gap") for each in everybody]
        if any(gaps):
            raise Failure(f"nothing was lost, but {sum(gaps)} gaps were refused, by process: {gaps}")


def _all_at_once(hosts: Hosts) -> None:
    """Processes that want the port at the same moment, on hosts where the port's last owners have just been killed."""
    for _ in range(3):
        with Cast() as cast:
            pairs = [(cast.start(hosts[0]), cast.start(hosts[1])) for _ in range(SHARERS)]
            everybody = [each for pair in pairs for each in pair]
            for one, other in pairs:
                [first], [second] = one.queues(1), other.queues(1)
                one.tell(f"connect 0 {second}")
                other.tell(f"connect 0 {first}")
            for each in everybody:
                each.expect("connected")
            _all_move(pairs, during=lambda: None)


def _one_slot_for_all(hosts: Hosts) -> None:
    """Ports of one slot only: the processes of a host read its socket together, and hand on what is not theirs."""
    with contextlib.ExitStack() as limits:
        for host in hosts:
            limits.enter_context(peers.ports_in_steps(host, PORTS_OF_ONE_SLOT))
        with Cast({"SOFTVERBS_LOG": "info"}) as cast:
            pairs = [(cast.start(hosts[0]), cast.start(hosts[1])) for _ in range(3)]
            for one, other in pairs:
                peers.connect(one, other)
            alone = [each for pair in pairs for each in pair if "no slot" not in each.complaints]
            if len(alone) != len(hosts):
                raise Failure(f"{len(alone)} processes have a slot for themselves")
            _all_move(pairs, during=lambda: None)
            _all_move(pairs[1:], during=pairs[0][0].stop)
            _all_move(pairs[1:], during=pairs[0][1].kill)


def _second_port(hosts: Hosts) -> None:
    """A process with more queue pairs than one UDP port stands for, which it gets after it has port 4791."""
    with Cast({"SOFTVERBS_LOG": "info"}) as cast:
        pair = [cast.start(host) for host in hosts]
        peers.connect(*pair)
        first, second = (each.queues(QUEUES_OF_A_PORT)[-1] for each in pair)
        pair[0].ask(f"connect {QUEUES_OF_A_PORT} {second}", "connected")
        pair[1].ask(f"connect {QUEUES_OF_A_PORT} {first}", "connected")
        _together(pair, f"transfer {64 * KIB} 0:50:50 {QUEUES_OF_A_PORT}:50:50")
        for each in pair:
            if "no slot" in each.complaints:
                raise Failure(f"its ports are in different slots: {each.complaints}")


def _mixed_train(hosts: Hosts) -> None:
    """The kernel makes one train of packets to two processes: one of them hands on what is not its own, and that ends."""
    here, there = hosts
    with Cast({"SOFTVERBS_LOG": "info"}) as cast:
        pairs = [(cast.start(here), cast.start(there)) for _ in range(2)]
        for one, other in pairs:
            peers.connect(one, other)
        numbers = [one.queues(1)[0].split()[0] for one, _ in pairs]
        with Peer("train", [*there.prefix, "python3", "-c", TRAIN, here.ipv4, *numbers], LOGS / "train.log", {}) as train:
            train.expect("sent")
        _all_move(pairs, during=lambda: None)
        told = [one.complaints.count("build no more trains") for one, _ in pairs]
        if sorted(told) != [0, 1]:
            raise Failure(f"trains were forbidden {told} times")


def _name_is_taken(hosts: Hosts, *, listens: bool) -> None:
    """Another user has the name that processes meet under, but not the port: one of them can have that."""
    here, there = hosts
    squatter = [*here.prefix, *NOBODY, "python3", "-c", SQUATTER, f"softverbs/4791/{here.ipv4}", str(int(listens))]
    with Peer("squatter", squatter, LOGS / "squatter.log", {}) as stranger, Cast() as cast:
        stranger.expect("held")
        one, other, late = cast.start(here), cast.start(there), cast.start(here)
        peers.connect(one, other)
        reason = r"user 65534 holds its name" if listens else "somebody holds its name and does not answer"
        if not re.search(rf"4791 .*cannot be shared .*{reason}", one.complaints):
            raise Failure(f"no warning about the name: {one.complaints}")
        _transfer(one, other, 64 * KIB, 50)
        [far] = other.queues(1)
        late.queues(1)
        late.ask(f"connect 0 {far}", "refused EADDRINUSE")


def _no_descriptors(hosts: Hosts, *, reserve: bool) -> None:
    """Who holds the port has no descriptors left: newcomers are refused, nobody spins, and it is over when there are some."""
    here, there = hosts
    with Cast() as cast:
        one, other, refused = cast.start(here), cast.start(there), cast.start(here)
        peers.connect(one, other)
        if reserve:  # has who has let somebody in
            with Cast() as guests:
                peers.connect(guests.start(here), guests.start(there))
        [far] = other.queues(1)
        refused.queues(1)
        with one.no_more_descriptors():
            refused.tell(f"connect 0 {far}")
            _transfer(one, other, 64 * KIB, 50)
            refused.expect("refused EADDRINUSE")
            before = one.cpu_seconds
            time.sleep(IDLE_FOR)
            if one.cpu_seconds - before > BUSY:
                raise Failure(f"busy for {one.cpu_seconds - before:.2f} s of {IDLE_FOR}")
        newcomers = cast.start(here), cast.start(there)
        peers.connect(*newcomers)
        _all_move([(one, other), newcomers], during=lambda: None)


def _newcomer_without_descriptors(hosts: Hosts) -> None:
    here, there = hosts
    with Cast() as cast:
        one, other, poor = cast.start(here), cast.start(there), cast.start(here)
        peers.connect(one, other)
        [far] = other.queues(1)
        poor.queues(1)
        with poor.no_more_descriptors(but=20):
            poor.ask(f"connect 0 {far}", "refused EMFILE")
        _transfer(one, other, 64 * KIB, 50)


def _child(hosts: Hosts) -> None:
    """What a process forks does not hold the port."""
    here, there = hosts
    with Cast() as cast:
        for _ in range(2):
            one, other = cast.start(here), cast.start(there)
            peers.connect(one, other)
            _transfer(one, other, 64 * KIB, 20)
            one.ask("fork", "forked")
            one.kill()


def _port_is_taken(hosts: Hosts) -> None:
    here, there = hosts
    with Cast() as cast:
        stranger, other = cast.start(here), cast.start(there)
        stranger.ask("occupy 4791", "occupied")
        one, neighbour = cast.start(here), cast.start(here)
        [far] = other.queues(1)
        [_, ours], [theirs] = one.queues(2), neighbour.queues(1)
        one.ask(f"connect 0 {far}", "refused EADDRINUSE")
        if "4791" not in one.complaints:
            raise Failure(f"no warning about the port: {one.complaints}")
        one.ask(f"connect 1 {theirs}", "connected")
        neighbour.ask(f"connect 0 {ours}", "connected")
        one.tell(f"transfer {64 * KIB} 1:50:50")
        neighbour.tell(f"transfer {64 * KIB} 0:50:50")
        for each in (one, neighbour):
            each.expect("moving")
            each.expect("done")


def _different(hosts: Hosts, prefix: list[str], settings: Settings | None = None) -> None:
    """The first process of a host and the second one differ; both talk to each other and to the other host."""
    here, there = hosts
    for first, second in (([], prefix), (prefix, [])):
        with Cast(settings) as cast:
            pairs = [(cast.start(here, prefix=each), cast.start(there)) for each in (first, second)]
            for one, other in pairs:
                peers.connect(one, other)
            _all_move(pairs, during=lambda: None)
            neighbours = cast.start(here, prefix=first), cast.start(here, prefix=second)
            peers.connect_twice(*neighbours)
            _together(neighbours, f"transfer {64 * KIB} 0:50:50 1:50:50")


NO_HOSTS: Hosts = (Host("", "", "", ""), Host("", "", "", ""))  # for the names of the cases alone


def _strangers(hosts: Hosts) -> None:
    """Users who do not trust each other: one has the port, the other is told so; they talk through sockets."""
    here, there = hosts
    for first, second in (([], NOBODY), (NOBODY, [])):
        with Cast() as cast:
            one, stranger, far = cast.start(here, prefix=first), cast.start(here, prefix=second), cast.start(there)
            peers.connect(one, far)
            [address] = far.queues(1)
            [ours] = stranger.queues(1)
            stranger.ask(f"connect 0 {address}", "refused EADDRINUSE")
            if not re.search(r"4791 .*user \d+ holds it", stranger.complaints):
                raise Failure(f"not told who has the port: {stranger.complaints}")
            [theirs] = one.queues(1)
            one.ask(f"connect 1 {ours}", "connected")
            stranger.ask(f"connect 0 {theirs}", "connected")
            one.tell(f"transfer {64 * KIB} 1:50:50")
            stranger.tell(f"transfer {64 * KIB} 0:50:50")
            for answer in ("moving", "done"):
                for each in (one, stranger):
                    each.expect(answer)
            for each in (one, stranger):
                if _rings(each):
                    raise Failure("users who do not trust each other share memory")


def _rings(of: Peer) -> int:
    """Packet rings that the process has mapped, its own and those of its neighbours."""
    return Path(f"/proc/{of.process}/maps").read_text().count("/memfd:softverbs")


def _on_two_hosts(hosts: Hosts) -> dict[str, Case]:
    return {
        "two hosts over IPv4": lambda: _two_hosts_talk(hosts, mtu=1500),
        "two hosts over IPv6": lambda: _two_hosts_talk(hosts, mtu=1500, ipv6=True),
        "two hosts with jumbo frames": lambda: _two_hosts_talk(hosts, mtu=9000),
        "two hosts without GSO": lambda: _two_hosts_talk(hosts, mtu=1500, settings={"SOFTVERBS_GSO": "0"}),
        "two hosts over IPv6 without GSO": lambda: _two_hosts_talk(
            hosts, mtu=1500, ipv6=True, settings={"SOFTVERBS_GSO": "0"}
        ),
        "two hosts with faults": lambda: _two_hosts_talk(hosts, mtu=1500, settings={"SOFTVERBS_FAULTS": FAULTS}),
        **{f"two hosts: {command}": functools.partial(_meeting, hosts, command) for command in ACROSS},
        **{
            f"two hosts: {connection.name}": functools.partial(_connected, hosts, connection)
            for connection in programs.CONNECTIONS
            if not connection.client.startswith("ib_")
        },
        "a killed peer on another host: a neighbour says goodbye": lambda: _neighbour_says_goodbye(hosts),
        "a killed peer on another host: nobody is left to say so": lambda: _killed_alone(hosts),
        **{
            f"one host by its real address: {connection.name}": functools.partial(
                _connected, (hosts[0], hosts[0]), connection
            )
            for connection in programs.CONNECTIONS
            if connection.client.startswith(("rping", "udaddy"))
        },
        "the port goes down and comes back": lambda: _port_goes_down(hosts),
        "an address that came later": lambda: _late_address(hosts),
        "port 4791: its first owner stops and dies": lambda: _owner_ends(hosts),
        "port 4791: eight processes on each host, flows in order": lambda: _in_order(hosts),
        "port 4791: eight processes on each host, flows in order over IPv6": lambda: _in_order(hosts, ipv6=True),
        "port 4791: eight processes at once": lambda: _all_at_once(hosts),
        "port 4791: one slot for all": lambda: _one_slot_for_all(hosts),
        "port 4791: the second port of a process": lambda: _second_port(hosts),
        "port 4791: one train for two processes": lambda: _mixed_train(hosts),
        "port 4791: another user holds its name": lambda: _name_is_taken(hosts, listens=True),
        "port 4791: another user holds its name and does not listen": lambda: _name_is_taken(hosts, listens=False),
        "port 4791: no descriptors for newcomers": lambda: _no_descriptors(hosts, reserve=False),
        "port 4791: one descriptor in reserve": lambda: _no_descriptors(hosts, reserve=True),
        "port 4791: a newcomer without descriptors": lambda: _newcomer_without_descriptors(hosts),
        "port 4791: children": lambda: _child(hosts),
        "port 4791 is taken": lambda: _port_is_taken(hosts),
        "different users": lambda: _strangers(hosts),
        "different users who trust each other": lambda: _different(
            hosts, NOBODY, {"SOFTVERBS_TRUSTED_USERS": "0,65534"}
        ),
        "different /dev/shm": lambda: _different(hosts, OWN_SHM),
        "different process numbers": lambda: _different(hosts, OWN_PIDS),
    }
