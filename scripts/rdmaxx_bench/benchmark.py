"""What one row of the table says."""

from dataclasses import dataclass

from rdmaxx_bench.goals import Goal
from rdmaxx_bench.runners import Runner


@dataclass(frozen=True)
class Benchmark:
    name: str
    peer: str
    unit: str
    goal: Goal
    runner: Runner
