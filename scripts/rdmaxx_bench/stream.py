"""`./bench stream`: rdmaxx's streams beside rsockets and TCP, by benchmarks/stream_exchange.cpp.

Names are stream/<path>/<operation>/<size>/<peer>:

    processes  two processes on softverbs; TCP over the loopback interface
    guest      two processes in the guest, on the kernel's rxe; TCP over the same address

All sides do the same blocking calls with the options that a program gets without asking; only TCP_NODELAY is set.
They come in nine rounds: the ratio is the median of nine interleaved pairs.
Idle is the processor time of a process that waits in a read. There are no rsockets on softverbs.
"""

from collections.abc import Iterator

from rdmaxx_bench.benchmark import Benchmark
from rdmaxx_bench.goals import AtMostMore, Goal, NoGoal, RatioAtLeast, RatioAtMost
from rdmaxx_bench.rounds import CloseGuestPair, ClosePair
from rdmaxx_bench.runners import PRESET
from rdmaxx_bench.sides import JsonProgram
from rdmaxx_bench.soft import PRELOADED
from rdmaxx_project import presets
from rdmaxx_project.repository import relative

PROGRAM = f"{relative(presets.directory(PRESET))}/benchmarks/stream_exchange"
ADDRESSES = {"processes": "127.0.0.1", "guest": "10.77.0.1"}
KINDS = {"processes": ClosePair, "guest": CloseGuestPair}
PEERS = {"processes": ("tcp",), "guest": ("rsocket", "tcp")}
PEER_NAMES = {"rsocket": "rsocket", "tcp": "TCP"}

SIZES = {"64B": 64, "1KiB": 1 << 10, "4KiB": 4 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20}
MESSAGES = {  # of one sample: below a second on an idle machine
    ("processes", "latency"): {"64B": 4_000, "1KiB": 4_000, "4KiB": 4_000, "64KiB": 1_000, "1MiB": 100},
    ("processes", "bandwidth"): {"64B": 100_000, "1KiB": 50_000, "4KiB": 20_000, "64KiB": 3_000, "1MiB": 200},
    ("guest", "latency"): {"64B": 300, "1KiB": 300, "4KiB": 200, "64KiB": 60, "1MiB": 12},
    ("guest", "bandwidth"): {"64B": 5_000, "1KiB": 2_000, "4KiB": 1_000, "64KiB": 150, "1MiB": 30},
}
STATISTICS = {"latency": "median", "bandwidth": "bandwidth", "idle": "processor"}
UNITS = {"latency": "µs median", "bandwidth": "GB/s", "idle": "ms/s"}
IDLE_MILLISECONDS = 1_500
ALMOST_NOTHING = 2  # ms of processor time in a second


def _side(path: str, transport: str, operation: str, number: int, messages: int) -> JsonProgram:
    command = (PROGRAM, transport, operation, str(number), str(messages), ADDRESSES[path])
    return JsonProgram(command, PRELOADED if path == "processes" and transport == "rdmaxx" else ())


def _row(path: str, operation: str, size: str, peer: str, goal: Goal) -> Benchmark:
    number, messages = IDLE_MILLISECONDS, 1
    if operation != "idle":
        number, messages = SIZES[size], MESSAGES[path, operation][size]
    ours, theirs = (_side(path, each, operation, number, messages) for each in ("rdmaxx", peer))
    return Benchmark(
        name="/".join(filter(None, ("stream", path, operation, size, peer))),
        peer=PEER_NAMES[peer],
        unit=UNITS[operation],
        goal=goal,
        runner=KINDS[path](ours, theirs, STATISTICS[operation]),
    )


def _goal(operation: str, peer: str) -> Goal:
    if peer != "rsocket":
        return NoGoal()
    return RatioAtMost(1) if operation == "latency" else RatioAtLeast(1)


def _rows() -> Iterator[Benchmark]:
    for path, peers in PEERS.items():
        for peer in peers:
            for operation in ("latency", "bandwidth"):
                yield from (_row(path, operation, size, peer, _goal(operation, peer)) for size in SIZES)
            yield _row(path, "idle", "", peer, AtMostMore(ALMOST_NOTHING))


ALL = tuple(_rows())
