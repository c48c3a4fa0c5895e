"""Libraries that look for devices in the file system run on softverbs as they are: UCX, libfabric, infiniband-diags.

Each case is a program with its options, on one host or between two. UCX on one host uses the loopback interface;
everything else happens in network namespaces of the check's own, because libfabric passes over that interface.
"""

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rdmaxx_project import background, presets, processes, progress, sockets
from rdmaxx_project.repository import BUILD
from rdmaxx_test import peers, two_sides
from rdmaxx_test.checks import ONLY_ROOT, Finding, Wanted, programs
from rdmaxx_test.peers import Host

PRESET = programs.PRESET
LOGS = BUILD / "checks" / "libraries"
TIMEOUT = 120  # seconds; an idle machine needs a hundredth of it
NETWORK = "10.47.94"
NETDEV = "end"  # on both hosts: ucx_perftest wants the same device on both

# ── what programs say of the device ──

SOFT0 = "/sys/class/infiniband/soft0"
ANSWERS = {
    "ibstat": ["CA 'soft0'", "State: Active", "Link layer: Ethernet"],
    "ibstat soft0 1": ["State: Active"],
    "ibstatus": ["'soft0' port 1 status", "4: ACTIVE", "Ethernet"],
    "ibv_devices": ["soft0"],
    "ucx_info -d": ["Transport: rc_verbs", "Transport: ud_verbs", "Device: soft0:1"],
    "fi_info -p verbs": ["domain: soft0", "FI_EP_MSG", "FI_EP_DGRAM", "FI_EP_RDM"],
    "ls -l /dev/infiniband /sys/class/infiniband /sys/class/infiniband_verbs": ["crw-rw-rw-", "soft0", "uverbs_soft0"],
    f"cat {SOFT0}/ports/1/gid_attrs/types/1 {SOFT0}/ports/1/gid_attrs/ndevs/1": ["RoCE v2\nlo\n"],
    f"find {SOFT0} -name numa_node": [f"{SOFT0}/device/numa_node"],
    "python3 -c 'import os; print(os.listdir(\"/sys/class/infiniband\"))'": ["['soft0']"],
    f"python3 -c 'import pathlib; print(*pathlib.Path(\"{SOFT0}\").glob(\"ports/*/gids/1\"))'": ["ports/1/gids/1"],
    f"sh -c 'sh -c \"cat {SOFT0}/node_type\"'": ["1: CA"],  # children inherit it
}
WITHOUT_DEVICES = "ls /sys/class/infiniband /dev/infiniband"  # if SOFTVERBS_NETDEVS names none

# ── ucx_perftest ──

SMALL, LARGE = "-s 8 -n 200 -w 20", f"-s {4 << 20} -n 20 -w 2"
RC = [
    f"am_lat {SMALL}",
    "am_bw -s 4000 -D zcopy -n 200 -w 20",
    f"put_lat {SMALL}",
    f"put_bw -D zcopy {LARGE}",
    f"get -D zcopy {LARGE}",
    *(f"{atomic} {SMALL}" for atomic in ("add_mr", "fadd", "cswap")),
]
UD = [f"am_lat {SMALL}", "am_bw -s 1000 -D bcopy -n 200 -w 20"]
UCP = [
    f"tag_lat {SMALL}",
    f"tag_bw {LARGE}",
    "tag_bw -s 65536 -n 50 -w 5",
    f"tag_lat -E sleep {SMALL}",
    f"tag_bw -E sleep {LARGE}",
    f"stream_lat {SMALL}",
    f"stream_bw {LARGE}",
    f"ucp_put_lat {SMALL}",
    f"ucp_put_bw {LARGE}",
    f"ucp_get {LARGE}",
    *(f"{atomic} {SMALL}" for atomic in ("ucp_fadd", "ucp_swap", "ucp_cswap")),
]
TRANSPORTS = ("rc_verbs,ud_verbs", "ud_verbs")  # of UCP: with UD to find each other, and alone
UD_ALONE = [f"tag_lat {SMALL}", f"tag_bw -s {1 << 20} -n 20 -w 2"]

# ── fi_pingpong, which looks at what it receives (-c) ──

FABRICS = [
    *(f"-p verbs -e msg -S {size}" for size in (64, 1 << 20)),
    "-p verbs -e dgram -S 1024",
    *(f'-p "verbs;ofi_rxm" -e rdm -S {size}' for size in (64, 1 << 20)),
]


@dataclass(frozen=True)
class Place:
    """Where the two sides are: what stands before their commands, and their device."""

    name: str
    server: list[str]
    client: list[str]
    device: str
    address: str
    process: int | str = sockets.OWN  # one that sees the server's ports


@dataclass(frozen=True)
class Meeting:
    name: str
    server: list[str]
    client: list[str]
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, place: Place) -> str:
        port = sockets.free_port()
        words = {"port": str(port), "address": place.address, "device": place.device}
        sides = two_sides.Sides(
            server=[*place.server, *(word.format(**words) for word in self.server)],
            clients=[[*place.client, *(word.format(**words) for word in self.client)]],
        )
        environment = {"LD_PRELOAD": _library(), **self.environment}
        return two_sides.run(
            sides, lambda: sockets.is_listening(port, place.process), LOGS, environment, TIMEOUT
        )


def _uct(transport: str, test: str) -> Meeting:
    command = ["ucx_perftest", "-x", transport, "-d", "{device}:1", "-p", "{port}", "-t", *shlex.split(test)]
    return Meeting(f"{transport} {test}", command, [*command, "{address}"], {"UCX_WARN_UNUSED_ENV_VARS": "n"})


def _ucp(transports: str, test: str) -> Meeting:
    command = ["ucx_perftest", "-p", "{port}", "-t", *shlex.split(test)]
    environment = {"UCX_TLS": transports, "UCX_WARN_UNUSED_ENV_VARS": "n"}
    return Meeting(f"ucp over {transports} {test}", command, [*command, "{address}"], environment)


def _fabric(options: str) -> Meeting:
    command = ["fi_pingpong", "-c", "-I", "50", *shlex.split(options)]
    return Meeting(f"fi_pingpong {options}", [*command, "-B", "{port}"], [*command, "-P", "{port}", "{address}"])


UCX = [
    *(_uct("rc_verbs", test) for test in RC),
    *(_uct("ud_verbs", test) for test in UD),
    *(_ucp(TRANSPORTS[0], test) for test in UCP),
    *(_ucp(TRANSPORTS[1], test) for test in UD_ALONE),
]
LIBFABRIC = [_fabric(options) for options in FABRICS]


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
    if wanted(WITHOUT_DEVICES):
        yield Finding(WITHOUT_DEVICES, _finds_nothing())
    loopback = ["env", "SOFTVERBS_NETDEVS=lo"]
    yield from _meet(wanted, UCX, Place("loopback", loopback, loopback, "soft0", "127.0.0.1"))
    yield from _between_hosts(wanted)


def _between_hosts(wanted: Wanted) -> Iterator[Finding]:
    names = [f"{place}: {each.name}" for place, cases in _cases_of_hosts().items() for each in cases]
    if not any(map(wanted, names)):
        return
    if os.geteuid() != 0:
        yield from (Finding(name, skipped=ONLY_ROOT) for name in filter(wanted, names))
        return
    try:
        with peers.two_hosts(NETWORK, (NETDEV, NETDEV)) as hosts, contextlib.ExitStack() as stack:
            # A process of the first host, which sees what listens there.
            witness = stack.enter_context(
                background.Program([*hosts[0].prefix, "sleep", "infinity"], LOGS / "witness.log", {})
            )
            witness.wait_until(lambda: _has_entered(witness.process), "entered its namespace")
            for place in _places(hosts, witness.process):
                yield from _meet(wanted, _cases_of_hosts()[place.name], place)
    except peers.Failure as failure:
        yield Finding("network namespaces", str(failure))


def _cases_of_hosts() -> dict[str, list[Meeting]]:
    return {"one host": LIBFABRIC, "two hosts": [*UCX, *LIBFABRIC]}


def _places(hosts: tuple[Host, Host], witness: int) -> list[Place]:
    def prefix(host: Host) -> list[str]:
        return [*host.prefix, "env", f"SOFTVERBS_NETDEVS={host.netdev}"]

    one, other = hosts
    device = f"soft_{NETDEV}"
    return [
        Place("one host", prefix(one), prefix(one), device, one.ipv4, witness),
        Place("two hosts", prefix(one), prefix(other), device, one.ipv4, witness),
    ]


def _has_entered(process: int) -> bool:
    return os.readlink(f"/proc/{process}/ns/net") != os.readlink("/proc/self/ns/net")


def _meet(wanted: Wanted, cases: list[Meeting], place: Place) -> Iterator[Finding]:
    for each in cases:
        name = f"{place.name}: {each.name}"
        if wanted(name):
            progress.moving(f"libraries: {name}")
            yield Finding(name, each.run(place))


def _library() -> str:
    return str(presets.directory(PRESET) / "lib/libsoftverbs.so")


def _output(command: str, netdevs: str) -> tuple[int, str]:
    log = LOGS / "answer.log"
    environment = {"LD_PRELOAD": _library(), "SOFTVERBS_NETDEVS": netdevs, "SOFTVERBS_LOG": "error"}
    status = processes.run(shlex.split(command), log, timeout=TIMEOUT, environment=environment)
    return status, log.read_text(errors="replace")


def _answer(command: str, parts: list[str]) -> str:
    status, output = _output(command, "lo")
    missing = [part for part in parts if part not in output]
    if status == 0 and not missing:
        return ""
    return f"exit status {status}, missing {missing} in:\n{output}"


def _finds_nothing() -> str:
    """Unless the kernel has devices of its own; two programs with different settings see different devices."""
    _, output = _output(WITHOUT_DEVICES, "none")
    return f"there is a soft device:\n{output}" if "soft" in output else ""
