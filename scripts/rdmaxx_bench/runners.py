"""Ways to get the two numbers of a benchmark: ours, and the peer's."""

import json
import re
import shlex
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Self

from rdmaxx_bench.problems import Unmeasured
from rdmaxx_project import guest, presets, processes
from rdmaxx_project.repository import BUILD

PRESET = "release"
TARGETS = ("benchmarks", "rdmaxx_tool", "softverbs")
TIMEOUT = 600
RUNS = BUILD / "bench-runs"


@dataclass(frozen=True)
class Numbers:
    ours: float | None
    peer: float | None
    problem: str = ""  # why one of them is missing
    ratio: float | None = None  # of samples that were taken in pairs: the median of theirs


class Runner(ABC):
    """Subclasses are values: equal ones measure the same thing."""

    where = "host"  # or "guest"

    @classmethod
    def prepare(cls, chosen: Iterable[Self]) -> None:
        """Called once before anything is measured, with all of this class that will be."""

    @abstractmethod
    def measure(self) -> Numbers:
        """Raises Unmeasured."""


@dataclass(frozen=True)
class CallgrindPair(Runner):
    """Instructions for each operation, counted by Valgrind: exact, and the same on a busy machine.

    The program contains both functions, not inlined; its argument is how often it calls each of them.
    It runs once, for all pairs in it.
    """

    program: str  # in the build folder
    ours: str
    peer: str
    operations: int = 1  # in one iteration

    ITERATIONS = 1000

    def measure(self) -> Numbers:
        costs = _callgrind(self.program, self.ITERATIONS)
        return Numbers(self._per_operation(costs, self.ours), self._per_operation(costs, self.peer))

    def _per_operation(self, costs: dict[str, int], function: str) -> float:
        if function not in costs:
            raise Unmeasured(f"{self.program} has no function {function}")
        return costs[function] / (self.ITERATIONS * self.operations)


@dataclass(frozen=True)
class JsonPair(Runner):
    """A program that measures by itself and prints {"ours": x, "peer": y} as its last line."""

    program: str  # in the build folder
    arguments: tuple[str, ...] = ()
    where: str = "host"

    def measure(self) -> Numbers:
        command = [_executable(self.program), *self.arguments]
        RUNS.mkdir(parents=True, exist_ok=True)
        out = Path(tempfile.mkdtemp(prefix="json-", dir=RUNS))
        log = out / "output.log"
        if self.where == "guest":
            # What it prints goes to a file: the console also carries the kernel's messages.
            printed = out / "printed"
            script = f"{shlex.join(map(str, command))} >{printed}"
            status = guest.run(["bash", "-c", script], out, log, timeout=TIMEOUT)
        else:
            printed = log
            status = processes.run(command, log, timeout=TIMEOUT)
        if status != 0 or not printed.exists():
            raise Unmeasured(f"{self.program} ended with status {status}:\n{processes.tail(log)}")
        return parse_pair(printed.read_text())


def parse_pair(output: str) -> Numbers:
    try:
        pair = json.loads(output.strip().splitlines()[-1])
        return Numbers(float(pair["ours"]), float(pair["peer"]))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise Unmeasured(f'no line {{"ours": x, "peer": y}} at the end of the output: {error!r}') from None


def _executable(program: str) -> Path:
    path = presets.directory(PRESET) / program
    if not path.exists():
        raise Unmeasured(f"{program} is not built")
    return path


@cache
def _callgrind(program: str, iterations: int) -> dict[str, int]:
    """Inclusive instruction counts by function."""
    executable = _executable(program)
    RUNS.mkdir(parents=True, exist_ok=True)
    out = RUNS / f"{executable.name}.callgrind"
    log = RUNS / f"{executable.name}.log"
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
    if processes.run([*valgrind, executable, str(iterations)], log, timeout=TIMEOUT) != 0:
        raise Unmeasured(f"{program} failed under Valgrind:\n{processes.tail(log)}")
    table = RUNS / f"{executable.name}.inclusive"
    annotate = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", out]
    if processes.run(annotate, table) != 0:
        raise Unmeasured(f"callgrind_annotate failed:\n{processes.tail(table)}")
    return parse_costs(table.read_text())


def parse_costs(table: str) -> dict[str, int]:
    """Reads rows such as `24,013 (1.2%)  file.cpp:c_post_send [program]`."""
    row = re.compile(r"^\s*([\d,]+) \([^)]*\)\s+\S*?:([A-Za-z_]\w*)(?:'\d+)?(?: \[|$)", re.MULTILINE)
    costs: dict[str, int] = {}
    for count, function in row.findall(table):
        costs[function] = max(costs.get(function, 0), int(count.replace(",", "")))
    return costs
