"""What was measured, as a table for people and as JSON for programs."""

import json
from dataclasses import dataclass

from rdmaxx_bench.registry import Benchmark
from rdmaxx_bench.runners import Numbers

HEADINGS = ("benchmark", "ours", "peer", "ratio", "goal", "met")


@dataclass(frozen=True)
class Measurement:
    benchmark: Benchmark
    numbers: Numbers | None
    problem: str = ""  # why there are no numbers

    @property
    def met(self) -> bool:
        return self.numbers is not None and self.benchmark.goal.met(self.numbers.ours, self.numbers.peer)

    @property
    def ratio(self) -> float | None:
        return self.numbers.ours / self.numbers.peer if self.numbers and self.numbers.peer else None


def table(measurements: list[Measurement]) -> str:
    rows = [HEADINGS, *(_row(measurement) for measurement in measurements)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = [" · ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    problems = dict.fromkeys(m.problem for m in measurements if m.problem)
    return "\n".join([*lines, *(f"\nnot measured: {problem}" for problem in problems)])


def _row(measurement: Measurement) -> tuple[str, ...]:
    benchmark, numbers = measurement.benchmark, measurement.numbers
    name = f"{benchmark.name} [{benchmark.unit}]"
    if numbers is None:
        return (name, "-", benchmark.peer, "-", str(benchmark.goal), "not measured")
    ratio = f"{measurement.ratio:.3f}" if measurement.ratio is not None else "-"
    return (
        name,
        f"{numbers.ours:.2f}",
        f"{numbers.peer:.2f} {benchmark.peer}",
        ratio,
        str(benchmark.goal),
        "yes" if measurement.met else "NO",
    )


def as_json(measurements: list[Measurement]) -> str:
    return json.dumps([_as_object(measurement) for measurement in measurements], indent=2)


def _as_object(measurement: Measurement) -> dict:
    benchmark, numbers = measurement.benchmark, measurement.numbers
    return {
        "name": benchmark.name,
        "peer_name": benchmark.peer,
        "unit": benchmark.unit,
        "where": benchmark.runner.where,
        "ours": numbers.ours if numbers else None,
        "peer": numbers.peer if numbers else None,
        "ratio": measurement.ratio,
        "goal": str(benchmark.goal),
        "met": measurement.met,
        "problem": measurement.problem or None,
    }
