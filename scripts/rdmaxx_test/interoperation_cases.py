"""What softverbs and the kernel's rxe do together: programs of which one side runs on each.

Every case is run in both directions, on each kind of cable that it names.
"""

import enum
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rdmaxx_project.repository import BUILD
from rdmaxx_test.two_sides import GROUP, UDADDY_PORT

FOLDER = BUILD / "checks" / "interoperation"  # the check copies here what the cases run
ECHO_SERVER, ECHO_CLIENT = PROGRAMS = ("04_echo_server", "05_echo_client")
FIRST_PORT = 20000
NOBODYS_PORT = 19999
# Reasons for a REJ (12.6.7.2).
INVALID_SERVICE_ID = 8
CONSUMER_REJECT = 28
STREAMED = 100_000  # bytes; a word on a command line cannot have many more


class Side(enum.Enum):
    KERNEL = "kernel"
    SOFT = "soft"

    @property
    def other(self) -> "Side":
        return Side.SOFT if self is Side.KERNEL else Side.KERNEL


class Meeting(enum.Enum):
    """How a client finds the server, and so how one knows that the server is ready."""

    SOCKET = enum.auto()
    LISTENER = enum.auto()  # of librdmacm
    DATAGRAM_LISTENER = enum.auto()
    MULTICAST = enum.auto()
    REFUSED = enum.auto()  # by the server, or because it listens elsewhere: the client has to be told so


@dataclass(frozen=True)
class Cable:
    name: str
    mtu: int
    loss: str = ""
    timeout: int = 60  # seconds for a case; an idle machine needs a tenth of it


JUMBO = Cable("", 9000)
ETHERNET = Cable("MTU 1500", 1500)
# A message of the connection manager that is lost comes again after seconds.
LOSSY = Cable("1 % loss", 9000, "1%", timeout=150)


@dataclass(frozen=True)
class Program:
    """{address}, {port}: where the server is; {own}, {device}, {gid}: those of the side that runs the command.

    {elsewhere} is a port where nobody is.
    """

    name: str
    server: str
    client: str
    meeting: Meeting
    ipv6: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)  # of softverbs
    refusal: int = INVALID_SERVICE_ID  # the reason that the client is to be told


@dataclass(frozen=True)
class Case:
    program: Program
    cable: Cable
    server: Side
    port: int

    @property
    def name(self) -> str:
        words = [self.program.name, self.cable.name, f"{self.server.value} serves"]
        return ", ".join(filter(None, words))


def _alike(command: str, options: str, meeting: Meeting, **more: object) -> Program:
    """The client's command is the server's and an address."""
    common = f"{command} {options} -p {{port}}"
    name = f"{command} over IPv6" if more.get("ipv6") else command
    return Program(name, common, f"{common} {{address}}", meeting, **more)


def _pingpong(command: str, *, ipv6: bool = False) -> Program:
    return _alike(command, "-d {device} -g {gid}", Meeting.SOCKET, ipv6=ipv6)


def _perftest(command: str, *, ipv6: bool = False) -> Program:
    return _alike(command, f"-d {{device}} -x {{gid}} -F{' --ipv6' if ipv6 else ''}", Meeting.SOCKET, ipv6=ipv6)


def _rping(options: str, *, ipv6: bool = False) -> Program:
    words = f"-a {{address}} -p {{port}} {options}"
    name = f"rping {options}{' over IPv6' if ipv6 else ''}"
    return Program(name, f"rping -s {words}", f"rping -c {words}", Meeting.LISTENER, ipv6=ipv6)


def _refused(*, ipv6: bool = False) -> Program:
    """There is a server all the same: on a host without processes of softverbs nobody could refuse."""
    return Program(
        f"rping where nobody listens{' over IPv6' if ipv6 else ''}",
        "rping -s -a {address} -p {port}",
        "rping -c -a {address} -p {elsewhere} -C 1",
        Meeting.REFUSED,
        ipv6=ipv6,
    )


def _refused_by_consumer(*, ipv6: bool = False) -> Program:
    """A server of streams refuses whoever does not greet as a stream does."""
    place = "[{address}]:{port}" if ipv6 else "{address}:{port}"
    return Program(
        f"rping refused by its server{' over IPv6' if ipv6 else ''}",
        f"{FOLDER}/{ECHO_SERVER} {place}",
        "rping -c -a {address} -p {port} -C 1",
        Meeting.REFUSED,
        ipv6=ipv6,
        refusal=CONSUMER_REJECT,
    )


def _ucmatose(options: str, *, ipv6: bool = False) -> Program:
    name = f"ucmatose {options}{' over IPv6' if ipv6 else ''}"
    words = f"-p {{port}} {options}"
    return Program(
        name, f"ucmatose -b {{address}} {words}", f"ucmatose -s {{address}} {words}", Meeting.LISTENER, ipv6=ipv6
    )


def _udaddy(options: str, *, ipv6: bool = False) -> Program:
    name = f"udaddy {options}{' over IPv6' if ipv6 else ''}"
    return Program(
        name,
        f"udaddy -b {{address}} {options}",
        f"udaddy -s {{address}} {options}",
        Meeting.DATAGRAM_LISTENER,
        ipv6=ipv6,
    )


def _stream(*, ipv6: bool = False) -> Program:
    """The library's own streams, by its examples: the client checks what comes back."""
    place = "[{address}]:{port}" if ipv6 else "{address}:{port}"
    return Program(
        f"a stream of 2 × {STREAMED} bytes{' over IPv6' if ipv6 else ''}",
        f"{FOLDER}/{ECHO_SERVER} {place} 1",
        f"{FOLDER}/{ECHO_CLIENT} {place} {'x' * STREAMED}",
        Meeting.LISTENER,
        ipv6=ipv6,
    )


def _without_gso(program: Program) -> Program:
    return replace(program, name=f"{program.name} without GSO", settings={"SOFTVERBS_GSO": "0"})


LARGE = "-s 1048576 -n 10"
MEDIUM = "-s 65536 -n 50"
PINGS = "-n 200"

CONNECTING = [
    _rping("-V -C 10"),
    _rping("-V -C 10", ipv6=True),
    _rping("-V -C 5 -S 60000"),
    _ucmatose("-c 5"),
    _ucmatose("-c 5", ipv6=True),
    _udaddy("-c 5"),
    _udaddy("-c 5", ipv6=True),
    Program("rdma_client", "rdma_server -p {port}", "rdma_client -s {address} -p {port}", Meeting.LISTENER),
    Program("mckey", f"mckey -b {{own}} -m {GROUP}", f"mckey -b {{own}} -m {GROUP} -s", Meeting.MULTICAST),
    _stream(),
    _stream(ipv6=True),
    _refused(),
    _refused(ipv6=True),
    _refused_by_consumer(),
    _refused_by_consumer(ipv6=True),
]

PINGPONGS = [
    _pingpong(f"ibv_rc_pingpong -c {PINGS}"),
    _pingpong(f"ibv_rc_pingpong -c {PINGS}", ipv6=True),
    _pingpong("ibv_rc_pingpong -c -m 4096 -s 1000000 -n 10"),
    *(_pingpong(f"ibv_uc_pingpong -c {PINGS}", ipv6=ipv6) for ipv6 in (False, True)),
    *(_pingpong(f"ibv_ud_pingpong -c {PINGS}", ipv6=ipv6) for ipv6 in (False, True)),
]

PERFTESTS = [
    *(_perftest(f"ib_{test}_bw {size}") for test in ("send", "write", "read") for size in (MEDIUM, LARGE)),
    *(_perftest(f"ib_atomic_bw -A {atomic} -n 50") for atomic in ("FETCH_AND_ADD", "CMP_AND_SWAP")),
    *(_perftest(f"ib_{test}_lat -n 100") for test in ("send", "write", "read")),
    _perftest("ib_send_bw -c UD -s 1024 -n 100"),
    *(_perftest(f"ib_{test}_bw {MEDIUM}", ipv6=True) for test in ("send", "write", "read")),
    _perftest("ib_atomic_bw -A FETCH_AND_ADD -n 50", ipv6=True),
    _perftest("ib_send_lat -n 100", ipv6=True),
    _perftest("ib_send_bw -c UD -s 1024 -n 100", ipv6=True),
    _without_gso(_perftest(f"ib_send_bw {LARGE}")),
]

SMALL_PACKETS = [
    _rping("-V -C 5 -S 60000"),
    _pingpong("ibv_rc_pingpong -c -s 1000000 -n 10"),
    _pingpong("ibv_rc_pingpong -c -s 1000000 -n 10", ipv6=True),
    *(_perftest(f"ib_{test}_bw {LARGE}") for test in ("send", "write", "read")),
]

# Not the unreliable ones, which may lose.
UNDER_LOSS = [
    _stream(),
    _stream(ipv6=True),
    _rping("-V -C 10 -S 60000"),
    _rping("-V -C 10", ipv6=True),
    _ucmatose("-c 5"),
    _refused(),
    _refused(ipv6=True),
    _pingpong(f"ibv_rc_pingpong -c {PINGS}"),
    _pingpong(f"ibv_rc_pingpong -c {PINGS}", ipv6=True),
    # A loss is noticed after the timeout of the queue pair, 67 ms with 14.
    *(_perftest(f"ib_{test}_bw -u 14 {MEDIUM}") for test in ("send", "write", "read")),
    *(_perftest(f"ib_atomic_bw -u 14 -A {atomic} -n 50") for atomic in ("FETCH_AND_ADD", "CMP_AND_SWAP")),
]

PROGRAMS_ON = {JUMBO: [*CONNECTING, *PINGPONGS, *PERFTESTS], ETHERNET: SMALL_PACKETS, LOSSY: UNDER_LOSS}


def _all() -> Iterator[Case]:
    ports = itertools.count(FIRST_PORT)  # each its own, because one that was used may be held for a while
    for cable, programs in PROGRAMS_ON.items():
        for program in programs:
            for server in Side:
                port = next(ports)
                yield Case(program, cable, server, UDADDY_PORT if program.name.startswith("udaddy") else port)


ALL = list(_all())
