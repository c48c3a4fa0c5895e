"""Programs of the distribution, which know nothing of libsoftverbs, pass on its device.

Each case is a program with its options: that is what the two sides were started with.
"""

import itertools
import shlex
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rdmaxx_project import presets, processes, progress, sockets
from rdmaxx_project.repository import BUILD
from rdmaxx_test import two_sides
from rdmaxx_test.checks import Finding, Wanted
from rdmaxx_project.sockets import IB, TCP, UDP
from rdmaxx_test.two_sides import GROUP, ROCE_PORT, UDADDY_PORT

PRESET = "dev"
DEVICE = "soft0"
IPV4 = 1  # the index of ::ffff:127.0.0.1 among the GIDs of soft0
IPV6 = 2
LOGS = BUILD / "checks" / "programs"
TIMEOUT = 180  # seconds; an idle machine needs a twentieth of it
AT_ONCE = 3

# What the programs that ask say about the device.
ANSWERS = {
    "ibv_devices": [DEVICE],
    f"ibv_devinfo -v -d {DEVICE}": [
        f"hca_id:\t{DEVICE}",
        "PORT_ACTIVE",
        "active_mtu:\t\t4096",
        "link_layer:\t\tEthernet",
        "::ffff:127.0.0.1, RoCE v2",
        "::1, RoCE v2",
    ],
}

PINGPONGS = [
    *(
        f"{program} {options}".strip()
        for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong")
        for options in ("", "-e", "-c", "-e -c")
    ),
    "ibv_rc_pingpong -c -s 1000000 -m 4096 -n 20",
    "ibv_rc_pingpong -c -N",
    "ibv_rc_pingpong -c -t",
    "ibv_uc_pingpong -c -s 100000 -r 20 -n 20",
    "ibv_srq_pingpong -c -q 3",
    "ibv_xsrq_pingpong",
    "ibv_xsrq_pingpong -e",
]

SIZES = "-a -n 5"  # from 2 bytes to 8 MiB; perftest itself takes a quarter of a second for each size
LARGEST = "-s 8388608 -n 5"
FEW = "-n 100"
PERFTESTS = [
    *(f"ib_{operation}_{measure} {SIZES}" for operation in ("send", "write", "read") for measure in ("bw", "lat")),
    *(
        f"ib_{operation}_{measure} {options} {FEW}"
        for operation in ("send", "write", "read")
        for measure in ("bw", "lat")
        for options in ("-s 2", "--use_old_post_send -s 5000")
    ),
    *(f"ib_{test} -e {FEW}" for test in ("send_bw", "send_lat", "read_bw", "read_lat", "atomic_bw", "atomic_lat")),
    *(
        f"ib_atomic_{measure} -A {atomic} {FEW}"
        for measure in ("bw", "lat")
        for atomic in ("CMP_AND_SWAP", "FETCH_AND_ADD")
    ),
    *(f"ib_{test} -c UC {SIZES}" for test in ("send_bw", "send_lat", "write_lat")),
    f"ib_write_bw -c UC {LARGEST}",
    f"ib_send_lat -c XRC {SIZES}",
    *(f"ib_send_{measure} -c {service} {FEW}" for measure in ("bw", "lat") for service in ("UD", "XRC")),
    *(f"ib_{operation}_bw -q 4 {FEW}" for operation in ("send", "write", "read", "atomic")),
    *(f"ib_{operation}_bw -b {FEW}" for operation in ("send", "write", "read", "atomic")),
    *(f"ib_{test} -I 128 -s 128 {FEW}" for test in ("send_bw", "send_lat", "write_bw", "write_lat")),
    *(f"ib_send_{measure} --use-srq {FEW}" for measure in ("bw", "lat")),
    f"ib_send_bw --use-srq -q 4 -b {FEW}",
    f"ib_send_bw -c UC -e {FEW}",
    f"ib_send_bw -c UD -e {FEW}",
    f"ib_send_bw -c UD -q 4 {FEW}",
    f"ib_write_bw -l 10 -q 2 {FEW}",
    f"ib_send_bw -m 1024 -s 1000000 {FEW}",
]

OVER_IPV6 = [
    "ibv_rc_pingpong -c",
    "ibv_ud_pingpong -c",
    *(f"ib_{operation}_bw --ipv6 {FEW}" for operation in ("send", "write", "read")),
    f"ib_send_lat --ipv6 -c UD {FEW}",
]


@dataclass(frozen=True)
class Meeting:
    """A program that is started as a server and as a client."""

    command: str
    gid: int = IPV4
    clients: int = 1
    only_server: str = ""  # options that a client does not have

    @property
    def name(self) -> str:
        words = [self.command, self.only_server, "over IPv6" if self.gid == IPV6 else ""]
        return " ".join(filter(None, words))

    def is_ready(self, port: int) -> bool:
        return sockets.is_listening(port)

    def sides(self, port: int) -> two_sides.Sides:
        is_perftest = self.command.startswith("ib_")
        gid = ["-x" if is_perftest else "-g", str(self.gid)]
        # perftest's -F: it does not mind a processor whose clock varies.
        common = [*shlex.split(self.command), "-d", DEVICE, "-p", str(port), *gid, *(["-F"] if is_perftest else [])]
        return two_sides.Sides(
            server=[*common, *shlex.split(self.only_server)],
            clients=[[*common, "127.0.0.1"]] * self.clients,
        )


@dataclass(frozen=True)
class Connection:
    """A program that connects by librdmacm; {port} is where the sides meet."""

    server: str
    client: str
    port_space: int = TCP
    fixed_port: int = 0

    @property
    def needs_to_be_alone(self) -> bool:
        return self.fixed_port != 0 or self.server.startswith("mckey")

    @property
    def name(self) -> str:
        return self.client.replace(" -p {port}", "").strip()

    def sides(self, port: int) -> two_sides.Sides:
        server, client = (shlex.split(command.format(port=port)) for command in (self.server, self.client))
        return two_sides.Sides(server=server, clients=[client])

    def is_ready(self, port: int, process: int | str = sockets.OWN) -> bool:
        if self.server.startswith("mckey"):
            return sockets.is_member_of(GROUP, ROCE_PORT, process)
        return sockets.offers_service(self.port_space, self.fixed_port or port, process)


def _connecting_perftest(command: str) -> Connection:
    common = f"{command} -R -F -p {{port}}"
    return Connection(common, f"{common} 127.0.0.1")


CONNECTIONS = [
    *(
        Connection(f"rping -s -a {address} -p {{port}} {options}", f"rping -c -a {address} -p {{port}} {options}")
        for address in ("127.0.0.1", "::1")
        for options in ("-V -C 10", "-V -S 65000 -C 5")
    ),
    Connection("rping -s -p {port} -V", "rping -c -a 127.0.0.1 -p {port} -V -C 11"),  # to any address
    *(
        Connection(f"ucmatose -b {address} -p {{port}} {options}", f"ucmatose -s {address} -p {{port}} {options}")
        for address, options in (("127.0.0.1", ""), ("127.0.0.1", "-c 20 -C 5 -S 5000"), ("::1", "-c 3"))
    ),
    *(
        Connection(f"udaddy -b {address} {options}", f"udaddy -s {address} {options}", UDP, UDADDY_PORT)
        for address, options in (("127.0.0.1", ""), ("127.0.0.1", "-c 20 -C 5 -S 1000"), ("::1", ""))
    ),
    Connection("rdma_server -p {port}", "rdma_client -s 127.0.0.1 -p {port}"),
    Connection("rdma_xserver -c r -p {port}", "rdma_xclient -s 127.0.0.1 -c r -p {port}"),
    Connection("rdma_xserver -c x -p {port}", "rdma_xclient -s 127.0.0.1 -c x -p {port}", IB),
    Connection(f"mckey -b 127.0.0.1 -m {GROUP}", f"mckey -b 127.0.0.1 -m {GROUP} -s", UDP),
    *(
        _connecting_perftest(f"ib_{test} {FEW}")
        for test in ("send_bw", "send_lat", "write_bw", "write_lat", "read_bw", "read_lat", "atomic_bw", "atomic_lat")
    ),
    _connecting_perftest(f"ib_send_bw -q 4 {FEW}"),
    _connecting_perftest(f"ib_send_bw {SIZES}"),
]

MEETINGS = [
    *map(Meeting, PINGPONGS),
    Meeting("ibv_xsrq_pingpong", clients=2, only_server="-c 2"),
    *map(Meeting, PERFTESTS),
    *(Meeting(command, IPV6) for command in OVER_IPV6),
]


def run(wanted: Wanted) -> Iterable[Finding]:
    try:
        presets.build(PRESET, "softverbs")
    except presets.BuildFailure as failure:
        yield Finding("build", failure.output)
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    for command, parts in ANSWERS.items():
        if wanted(command):
            yield Finding(command, _answer(command, parts))
    chosen = [case for case in (*MEETINGS, *CONNECTIONS) if wanted(case.name)]
    alone = [case for case in chosen if isinstance(case, Connection) and case.needs_to_be_alone]
    together = [case for case in chosen if case not in alone]
    # perftest sleeps most of the time.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(_finding, together, itertools.count())
    yield from map(_finding, alone, itertools.count())


def _finding(case: Meeting | Connection, number: int) -> Finding:
    progress.moving(f"programs: {case.name}")
    logs = LOGS / str(number)
    logs.mkdir(exist_ok=True)
    port = sockets.free_port()
    problem = two_sides.run(case.sides(port), lambda: case.is_ready(port), logs, environment(), TIMEOUT)
    return Finding(case.name, problem)


def environment() -> dict[str, str]:
    library = presets.directory(PRESET) / "lib/libsoftverbs.so"
    return {"LD_PRELOAD": str(library), "SOFTVERBS_NETDEVS": "lo"}


def _answer(command: str, parts: list[str]) -> str:
    log = LOGS / "answer.log"
    status = processes.run(shlex.split(command), log, timeout=TIMEOUT, environment=environment())
    output = log.read_text(errors="replace")
    missing = [part for part in parts if part not in output]
    if status == 0 and not missing:
        return ""
    return f"exit status {status}, missing {missing} in:\n{output}"
