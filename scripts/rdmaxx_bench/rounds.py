"""Compares sides that are measured in rounds, here or in the testbed's guest.

Each round takes one sample of every side, so that all of them meet the same moods of a shared machine. The median of
the rounds counts; of ratios it is the median of those within the rounds. A side that fails once is out: its rows say
why. A machine that is so busy that time runs out gets fewer rounds, and a line that says so.

As a program, in the guest: python3 -m rdmaxx_bench.rounds <folder> <rounds>
"""

import os
import pickle
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import ClassVar

from rdmaxx_bench.problems import Unmeasured
from rdmaxx_bench.runners import RUNS, Numbers, Runner
from rdmaxx_bench.sides import Sample, Side
from rdmaxx_project import guest, processes, progress

ROUNDS = 3
MORE_ROUNDS = 9  # where the two are near each other
TIMEOUT = 10  # seconds of one sample; an idle machine needs half a second
BUDGET = 50  # seconds of all samples for each round; none is started later
GUEST_SLOWER = 6  # how much more time a sample gets there
GUEST_TIMEOUT = 1800


@dataclass
class Series:
    samples: list[Sample] = field(default_factory=list)
    problem: str = ""

    def take(self, side: Side, logs: Path, timeout: float) -> None:
        if self.problem:
            return
        try:
            self.samples.append(side.sample(logs, timeout))
        except Unmeasured as problem:
            self.problem = str(problem)

    def value(self, statistic: str) -> float | None:
        if self.problem or not self.samples:
            return None
        return median(sample[statistic] for sample in self.samples)


@dataclass(frozen=True)
class SidePair(Runner):
    ours: Side
    peer: Side
    statistic: str

    rounds: ClassVar[int] = ROUNDS
    measured: ClassVar[dict[Side, Series]] = {}

    @classmethod
    def prepare(cls, chosen: Iterable["SidePair"]) -> None:
        sides = dict.fromkeys(side for pair in chosen for side in (pair.ours, pair.peer))
        cls.measured.update(cls.measure_all(list(sides)))

    @classmethod
    def measure_all(cls, sides: list[Side]) -> dict[Side, Series]:
        return measure_in_rounds(sides, cls.rounds, folder_for("rounds-"), TIMEOUT, BUDGET * cls.rounds)

    def measure(self) -> Numbers:
        ours, peer = self.measured[self.ours], self.measured[self.peer]
        problem = "\n".join(dict.fromkeys(filter(None, (ours.problem, peer.problem))))
        ratio = ratio_of_pairs(ours, peer, self.statistic)
        return Numbers(ours.value(self.statistic), peer.value(self.statistic), problem, ratio)


@dataclass(frozen=True)
class ClosePair(SidePair):
    rounds: ClassVar[int] = MORE_ROUNDS

    measured: ClassVar[dict[Side, Series]] = {}


@dataclass(frozen=True)
class GuestPair(SidePair):
    where = "guest"
    wire: ClassVar[bool] = False  # whether the guest has rxe devices that are joined by a cable

    measured: ClassVar[dict[Side, Series]] = {}

    @classmethod
    def measure_all(cls, sides: list[Side]) -> dict[Side, Series]:
        """All in one guest, because starting it takes longer than measuring."""
        folder = folder_for("guest-")
        (folder / "sides").write_bytes(pickle.dumps(sides))
        command = ["env", "PYTHONPATH=scripts", "PYTHONDONTWRITEBYTECODE=1", "python3", "-m", __spec__.name]
        progress.moving("measuring in the guest")
        status = guest.run(
            [*command, folder, str(cls.rounds)], folder, folder / "guest.log", timeout=GUEST_TIMEOUT, wire=cls.wire
        )
        if status != 0 or not (folder / "series").exists():
            problem = f"the guest ended with status {status}:\n{processes.tail(folder / 'guest.log')}"
            return {side: Series(problem=problem) for side in sides}
        return dict(zip(sides, pickle.loads((folder / "series").read_bytes())))


@dataclass(frozen=True)
class CloseGuestPair(GuestPair):
    rounds: ClassVar[int] = MORE_ROUNDS

    measured: ClassVar[dict[Side, Series]] = {}


@dataclass(frozen=True)
class WirePair(GuestPair):
    wire: ClassVar[bool] = True

    measured: ClassVar[dict[Side, Series]] = {}


def ratio_of_pairs(ours: Series, peer: Series, statistic: str) -> float | None:
    """The two samples of a round were taken in the same mood of the machine."""
    if ours.problem or peer.problem:
        return None
    pairs = [(one[statistic], other[statistic]) for one, other in zip(ours.samples, peer.samples)]
    if not pairs or any(other == 0 for _, other in pairs):
        return None
    return median(one / other for one, other in pairs)


def measure_in_rounds(
    sides: list[Side], rounds: int, logs: Path, timeout: float, budget: float
) -> dict[Side, Series]:
    deadline = time.monotonic() + budget
    every = {side: Series() for side in sides}
    for number in range(1, rounds + 1):
        for index, (side, series) in enumerate(every.items(), 1):
            progress.moving(f"round {number} of {rounds}: {index} of {len(sides)}")
            if time.monotonic() < deadline:
                series.take(side, logs, timeout)
    _tell_of_disturbances(list(every.values()), rounds, budget)
    return every


def _tell_of_disturbances(every: list[Series], rounds: int, budget: float) -> None:
    for series in every:
        if not series.samples and not series.problem:
            series.problem = f"no time was left after {budget:g} s, on a busy machine"
    if few := sum(len(series.samples) < rounds and not series.problem for series in every):
        progress.line(f"{few} of {len(every)} sides have fewer than {rounds} samples: {budget:g} s were over")
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    if load > processors + 1:  # more than we ourselves cause, with two sides that poll
        progress.line(f"the machine was busy with other work (load {load:.1f}, {processors} processors): expect noise")


def folder_for(prefix: str) -> Path:
    RUNS.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=RUNS))


def measure_here(folder: Path, rounds: int) -> int:
    """What the guest runs."""
    sides = pickle.loads((folder / "sides").read_bytes())
    series = measure_in_rounds(sides, rounds, folder, TIMEOUT * GUEST_SLOWER, GUEST_TIMEOUT / 2)
    (folder / "series").write_bytes(pickle.dumps(list(series.values())))
    return 0


if __name__ == "__main__":
    # Not as __main__: what is pickled names the modules of its classes.
    from rdmaxx_bench import rounds

    processes.end_cleanly(lambda: rounds.measure_here(Path(sys.argv[1]), int(sys.argv[2])))
