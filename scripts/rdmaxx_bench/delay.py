"""`./bench softverbs/delay`: libsoftverbs over long paths.

softverbs/delay/write_bandwidth/<delay>   WRITEs of 64 KiB, enough of them in flight, with acknowledgements that a fault plan
                                          delays: beside what a window of 16 MiB, or the same without delay, allows
softverbs/delay/sent_again/<delay>        the packets that were sent twice meanwhile, although none was lost
softverbs/delay/wire/<delay>              the same over a cable of the guest that netem makes long
softverbs/delay/wire_sent_again/<delay>   the packets that were sent twice there
softverbs/delay/lossy_wire/rxe            the same over a cable of the guest with 20 ms and 1 % loss, beside rxe
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rdmaxx_bench.benchmark import Benchmark
from rdmaxx_bench.goals import AtMostMore, RatioAtLeast
from rdmaxx_bench.problems import Unmeasured
from rdmaxx_bench.rounds import BUDGET, Series, SidePair, WirePair, folder_for, measure_in_rounds
from rdmaxx_bench.runners import PRESET
from rdmaxx_bench.sides import JsonProgram, Sample, Side, free_port, parse_perftest, run_pair
from rdmaxx_project import presets

SIZE = 64 << 10
IN_FLIGHT = 512  # messages: twice the largest window
LARGEST_WINDOW = 16 << 20
DELAYS = (0, 1, 5, 20, 100)  # milliseconds
MESSAGES = 16384  # 64 windows: the first few, while the window grows, hardly count
WIRE_MESSAGES = 5120  # 20 windows
LOSSY_MESSAGES = 400
TIMEOUT = 40  # seconds of one sample: at 100 ms it takes 7
PROBES = 4  # single packets that a busy machine may send again, because an answer was late


@dataclass(frozen=True)
class DelayedWrites(Side):
    delay: int

    def sample(self, logs: Path, timeout: float) -> Sample:
        # A rule that never strikes costs what one that does costs.
        rule = f"delay={self.delay}ms op=ACK" if self.delay else "delay=1h op=ATOMIC"
        environment = {
            "LD_PRELOAD": str(presets.directory(PRESET) / "lib" / "libsoftverbs.so"),
            "SOFTVERBS_REAL": "0",
            "SOFTVERBS_LOG": "info",
            "SOFTVERBS_FAULTS": rule,
        }
        port = free_port()
        options = f"-F -d soft0 -x 1 -s {SIZE} -n {MESSAGES} -t {IN_FLIGHT} -Q 1 -p {port}".split()
        server = ["ib_write_bw", *options]
        output = run_pair(server, [*server, "127.0.0.1"], port, logs, environment, timeout)
        return parse_perftest(output, SIZE) | {"again": parse_again(output)}


def parse_again(output: str) -> float:
    counts = re.findall(r"packets of requests sent, (\d+) of them again", output)
    if not counts:
        raise Unmeasured(f"no queue pair told how many packets it has sent:\n{output}")
    return float(sum(map(int, counts)))


@dataclass(frozen=True)
class PathLimit(Side):
    """What the path allows: the largest window in each round trip, or what is possible without delay."""

    delay: int

    def sample(self, logs: Path, timeout: float) -> Sample:
        at_once = DelayedWrites(0).sample(logs, timeout)["bandwidth"]
        by_window = LARGEST_WINDOW / (self.delay / 1000) / 1e9 if self.delay else at_once
        return {"bandwidth": min(at_once, by_window), "again": 0.0}


@dataclass(frozen=True)
class DelayPair(SidePair):
    measured: ClassVar[dict[Side, Series]] = {}

    @classmethod
    def measure_all(cls, sides: list[Side]) -> dict[Side, Series]:
        return measure_in_rounds(sides, cls.rounds, folder_for("delay-"), TIMEOUT, BUDGET * cls.rounds)


def _bandwidth(name: str, runner: SidePair) -> Benchmark:
    return Benchmark(name=name, peer="the path's limit", unit="GB/s", goal=RatioAtLeast(0.8), runner=runner)


def _sent_again(name: str, runner: SidePair) -> Benchmark:
    return Benchmark(name=name, peer="no loss", unit="packets", goal=AtMostMore(PROBES), runner=runner)


def _over_delays() -> tuple[Benchmark, ...]:
    rows = []
    for delay in DELAYS:
        ours, peer = DelayedWrites(delay), PathLimit(delay)
        # Where nothing is delayed, ours and the limit are the same thing.
        if delay:
            rows.append(_bandwidth(f"softverbs/delay/write_bandwidth/{delay}ms", DelayPair(ours, peer, "bandwidth")))
        rows.append(_sent_again(f"softverbs/delay/sent_again/{delay}ms", DelayPair(ours, peer, "again")))
    return tuple(rows)


def _wire(side: str, delay: float, loss: float, messages: int) -> JsonProgram:
    module = ("/usr/bin/env", "PYTHONPATH=scripts", "python3", "-m", "rdmaxx_bench.long_wire")
    return JsonProgram((*module, side, str(delay), str(loss), str(messages)))


@dataclass(frozen=True)
class WireLimit(Side):
    """What a long cable allows: the largest window in each round trip, or what is possible over a short one."""

    delay: int

    def sample(self, logs: Path, timeout: float) -> Sample:
        at_once = _wire("soft", 0, 0, WIRE_MESSAGES).sample(logs, timeout)["bandwidth"]
        return {"bandwidth": min(at_once, LARGEST_WINDOW / (self.delay / 1000) / 1e9), "again": 0.0}


def _over_wires() -> tuple[Benchmark, ...]:
    rows = []
    for delay in filter(None, DELAYS):
        ours, peer = _wire("soft", delay, 0, WIRE_MESSAGES), WireLimit(delay)
        rows.append(_bandwidth(f"softverbs/delay/wire/{delay}ms", WirePair(ours, peer, "bandwidth")))
        rows.append(_sent_again(f"softverbs/delay/wire_sent_again/{delay}ms", WirePair(ours, peer, "again")))
    return tuple(rows)


ALL = (
    *_over_delays(),
    *_over_wires(),
    Benchmark(
        name="softverbs/delay/lossy_wire/rxe",
        peer="rxe",
        unit="GB/s",
        goal=RatioAtLeast(1),
        runner=WirePair(_wire("soft", 20, 1, LOSSY_MESSAGES), _wire("rxe", 20, 1, LOSSY_MESSAGES), "bandwidth"),
    ),
)
