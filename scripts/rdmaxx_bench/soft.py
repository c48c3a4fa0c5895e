"""`./bench soft`: libsoftverbs beside what else there is for a machine without RDMA hardware.

Names are softverbs/<path>/<operation>/<size>/<peer>. The path is how the two sides of libsoftverbs meet:

    processes    two processes, by default: shared memory
    udp          two processes, by sockets (SOFTVERBS_SHM=0)
    udp-icrc     the same, with the checksum that packets to other hosts have (SOFTVERBS_ICRC=always)
    one-thread   one thread with both queue pairs
    two-threads  one process, a thread for each queue pair
    ucx          two processes of UCX on libsoftverbs: UCX is on both sides
    guest        two processes in the guest, beside the kernel's rxe

Two processes are those of perftest with the library preloaded, within one process it is
benchmarks/soft_same_process.cpp. Both sides of all latencies poll. fi_pingpong, the only measuring program of
libfabric that Debian packages, has neither a median nor a stream: means and ping-pongs are compared with it.
"""

from collections.abc import Iterator

from rdmaxx_bench.benchmark import Benchmark
from rdmaxx_bench.goals import Above, Below, Goal, NoGoal
from rdmaxx_bench.rounds import GuestPair, SidePair
from rdmaxx_bench.runners import PRESET
from rdmaxx_bench.sides import Environment, JsonProgram, Libfabric, Perftest, Side, Ucx, UcxWithItself
from rdmaxx_project import presets
from rdmaxx_project.repository import relative

BUILT = relative(presets.directory(PRESET))
LIBRARY = presets.directory(PRESET) / "lib" / "libsoftverbs.so"
PRELOADED: Environment = (("LD_PRELOAD", str(LIBRARY)), ("SOFTVERBS_REAL", "0"))
UDP: Environment = (*PRELOADED, ("SOFTVERBS_SHM", "0"))
UDP_ICRC: Environment = (*UDP, ("SOFTVERBS_ICRC", "always"))
# A device on the loopback alone: UCX would divide large messages among all that it sees.
UCX_ON_SOFTVERBS: Environment = (*PRELOADED, ("SOFTVERBS_NETDEVS", "lo"))
UCX_TRANSPORTS = "rc_verbs,ud_verbs"
PATHS = {"processes": PRELOADED, "udp": UDP, "udp-icrc": UDP_ICRC}

SIZES = {"8B": 8, "64KiB": 64 << 10, "1MiB": 1 << 20}
LARGE = ("64KiB", "1MiB")
STREAMED = {"64KiB": 2_000, "1MiB": 150}  # messages of one sample: below 0.1 s
EXCHANGED = {"8B": 2_000, "64KiB": 100, "1MiB": 30}
IN_THE_GUEST = {"8B": 500, "64KiB": 200, "1MiB": 20}

AIM = 2.5  # µs for a SEND between two processes
UCX_TESTS = {
    "send_latency": "tag_lat",
    "write_latency": "ucp_put_lat",
    "send_bandwidth": "tag_bw",
    "write_bandwidth": "ucp_put_bw",
    "read_bandwidth": "ucp_get",
}
UCX_NAMES = {"tcp": "UCX tcp", "shm": "UCX shm"}
PROVIDERS = {"tcp": "tcp", "rxd": "udp;ofi_rxd", "shm": "shm"}


def _is_latency(operation: str) -> bool:
    return operation.endswith("latency")


def _messages(operation: str, size: str) -> int:
    return (EXCHANGED if _is_latency(operation) or operation.startswith("pingpong") else STREAMED)[size]


def _row(
    name: str, peer_name: str, ours: Side, peer: Side, statistic: str, goal: Goal, kind: type[SidePair] = SidePair
) -> Benchmark:
    return Benchmark(
        name=f"softverbs/{name}",
        peer=peer_name,
        unit="GB/s" if statistic == "bandwidth" else f"µs {statistic}",
        goal=goal,
        runner=kind(ours, peer, statistic),
    )


def _statistic(operation: str) -> str:
    return "median" if _is_latency(operation) else "bandwidth"


# ── our sides ──


def _perftest(operation: str, size: str, environment: Environment) -> Perftest:
    verb, _, measure = operation.partition("_")
    program = "ib_send_lat" if verb == "pingpong" else f"ib_{verb}_{'lat' if measure == 'latency' else 'bw'}"
    return Perftest(program, SIZES[size], _messages(operation, size), environment)


def _same_process(operation: str, size: str, threads: int) -> JsonProgram:
    verb, _, measure = operation.partition("_")
    numbers = (SIZES[size], _messages(operation, size), threads)
    return JsonProgram((f"{BUILT}/benchmarks/soft_same_process", verb, measure, *map(str, numbers)))


# ── peers ──


def _ucx(operation: str, size: str, transports: str) -> Ucx:
    return Ucx(UCX_TESTS[operation], SIZES[size], _messages(operation, size), transports)


def _sockets(protocol: str, operation: str, size: str, between: str) -> JsonProgram:
    what = "latency" if _is_latency(operation) else "stream"
    numbers = (str(SIZES[size]), str(_messages(operation, size)))
    return JsonProgram((f"{BUILT}/benchmarks/soft_sockets", protocol, what, *numbers, between))


def _libfabric(provider: str, size: str) -> Libfabric:
    return Libfabric(provider, SIZES[size], _messages("pingpong", size))


# ── rows ──


def _goal_against_ucx_tcp(operation: str) -> Goal:
    if operation == "send_latency":
        return Below(aim=AIM)
    return Above() if operation in ("send_bandwidth", "write_bandwidth") else NoGoal()


def _against_ucx(path: str, operation: str, size: str, transports: str, goal: Goal = NoGoal()) -> Benchmark:
    name = f"{path}/{operation}/{size}/ucx-{transports}"
    ours, peer = _perftest(operation, size, PATHS[path]), _ucx(operation, size, transports)
    return _row(name, UCX_NAMES[transports], ours, peer, _statistic(operation), goal)


def _against_sockets(path: str, operation: str, size: str, protocol: str) -> Benchmark:
    name = f"{path}/{operation}/{size}/{protocol}-sockets"
    ours, peer = _perftest(operation, size, PATHS[path]), _sockets(protocol, operation, size, "processes")
    return _row(name, f"{protocol.upper()} sockets", ours, peer, _statistic(operation), NoGoal())


def _against_libfabric(path: str, operation: str, size: str, provider: str) -> Benchmark:
    statistic = "mean" if _is_latency(operation) else "bandwidth"
    name = f"{path}/{operation}{'_mean' if statistic == 'mean' else ''}/{size}/libfabric-{provider}"
    ours, peer = _perftest(operation, size, PATHS[path]), _libfabric(PROVIDERS[provider], size)
    return _row(name, f"libfabric {PROVIDERS[provider]}", ours, peer, statistic, NoGoal())


def _operations() -> Iterator[tuple[str, str]]:
    yield from (("send_latency", "8B"), ("write_latency", "8B"))
    yield from ((f"{verb}_bandwidth", size) for verb in ("send", "write", "read") for size in LARGE)


def _by_shared_memory() -> Iterator[Benchmark]:
    for operation, size in _operations():
        yield _against_ucx("processes", operation, size, "tcp", _goal_against_ucx_tcp(operation))
        yield _against_ucx("processes", operation, size, "shm")
        if operation.startswith("send"):
            yield from (_against_sockets("processes", operation, size, protocol) for protocol in ("tcp", "udp"))
    yield from _ping_pongs("processes", ("tcp", "rxd", "shm"))


def _ping_pongs(path: str, providers: tuple[str, ...]) -> Iterator[Benchmark]:
    for provider in providers:
        yield _against_libfabric(path, "send_latency", "8B", provider)
        yield from (_against_libfabric(path, "pingpong_bandwidth", size, provider) for size in LARGE)


def _by_sockets() -> Iterator[Benchmark]:
    for operation, size in _operations():
        if operation.startswith("read"):
            continue
        yield _against_ucx("udp", operation, size, "tcp")
        if operation.startswith("send"):
            yield from (_against_sockets("udp", operation, size, protocol) for protocol in ("tcp", "udp"))
    yield from _ping_pongs("udp", ("tcp", "rxd"))
    for operation, size in (("send_latency", "8B"), *(("send_bandwidth", size) for size in LARGE)):
        yield _against_ucx("udp-icrc", operation, size, "tcp")
        yield _row(
            f"udp-icrc/{operation}/{size}/without-icrc",
            "softverbs without ICRC",
            _perftest(operation, size, UDP_ICRC),
            _perftest(operation, size, UDP),
            _statistic(operation),
            NoGoal(),
        )


def _within_one_process() -> Iterator[Benchmark]:
    for operation, size in _operations():
        if operation.startswith("read"):
            continue
        test, messages = UCX_TESTS[operation], _messages(operation, size)
        ours = _same_process(operation, size, threads=1)
        peer = UcxWithItself(test, SIZES[size], messages, "self")
        name = f"one-thread/{operation}/{size}/ucx-self"
        yield _row(name, "UCX self", ours, peer, _statistic(operation), NoGoal())
    for operation, size in _operations():
        if operation.startswith("read"):
            continue
        ours = _same_process(operation, size, threads=2)
        peer = _sockets("tcp", operation, size, "threads")
        name = f"two-threads/{operation}/{size}/tcp-sockets"
        yield _row(name, "TCP sockets", ours, peer, _statistic(operation), NoGoal())


def _ucx_on_softverbs() -> Iterator[Benchmark]:
    for operation, size in _operations():
        numbers = (UCX_TESTS[operation], SIZES[size], _messages(operation, size))
        ours, peer = Ucx(*numbers, UCX_TRANSPORTS, UCX_ON_SOFTVERBS), Ucx(*numbers, "tcp")
        yield _row(f"ucx/{operation}/{size}/ucx-tcp", "UCX tcp", ours, peer, _statistic(operation), NoGoal())


def _beside_the_kernel() -> Iterator[Benchmark]:
    for operation, size in _operations():
        program = _perftest(operation, size, PRELOADED).program
        numbers = (program, SIZES[size], IN_THE_GUEST[size])
        peer = Perftest(*numbers, device="rxe0", gid_index=1, address="10.77.0.1")
        goal = Below() if _is_latency(operation) else Above()
        for path, environment, expected in (("guest", PRELOADED, goal), ("guest-udp", UDP, NoGoal())):
            ours = Perftest(*numbers, environment)
            name = f"{path}/{operation}/{size}/rxe"
            yield _row(name, "rxe", ours, peer, _statistic(operation), expected, GuestPair)


ALL = (
    *_by_shared_memory(),
    *_by_sockets(),
    *_within_one_process(),
    *_ucx_on_softverbs(),
    *_beside_the_kernel(),
)
