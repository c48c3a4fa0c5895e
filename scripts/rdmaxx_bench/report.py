"""What was measured, as a table for people and as JSON for programs."""

import json
from dataclasses import dataclass

from rdmaxx_bench.benchmark import Benchmark
from rdmaxx_bench.runners import Numbers

HEADINGS = ("benchmark", "ours", "peer", "ratio", "goal", "met")


@dataclass(frozen=True)
class Measurement:
    benchmark: Benchmark
    numbers: Numbers | None
    problem: str = ""  # why there are no numbers, or not both

    @property
    def ours(self) -> float | None:
        return self.numbers.ours if self.numbers else None

    @property
    def peer(self) -> float | None:
        return self.numbers.peer if self.numbers else None

    @property
    def complete(self) -> bool:
        return self.ours is not None and self.peer is not None

    @property
    def met(self) -> bool:
        """Where nothing is expected, nothing is missed."""
        if not self.benchmark.goal:
            return True
        if self.complete and self.benchmark.goal.relative and self.ratio is not None:
            return self.benchmark.goal.met(self.ratio, 1)
        return self.complete and self.benchmark.goal.met(self.ours, self.peer)

    @property
    def ratio(self) -> float | None:
        if self.numbers and self.numbers.ratio is not None:
            return self.numbers.ratio
        return self.ours / self.peer if self.complete and self.peer else None


def table(measurements: list[Measurement]) -> str:
    rows = [HEADINGS, *(_row(measurement) for measurement in measurements)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = [" · ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    problems = dict.fromkeys(m.problem for m in measurements if m.problem)
    return "\n".join([*lines, *(f"\nnot measured: {problem}" for problem in problems)])


def _row(measurement: Measurement) -> tuple[str, ...]:
    benchmark = measurement.benchmark
    met = ("yes" if measurement.met else "NO") if benchmark.goal else "-"
    return (
        f"{benchmark.name} [{benchmark.unit}]",
        _number(measurement.ours, "failed" if measurement.numbers else "-"),
        f"{_number(measurement.peer, 'failed:' if measurement.numbers else '')} {benchmark.peer}".strip(),
        f"{measurement.ratio:.3f}" if measurement.ratio is not None else "-",
        str(benchmark.goal),
        met if measurement.complete else "not measured",
    )


def _number(value: float | None, otherwise: str) -> str:
    if value is None:
        return otherwise
    return f"{value:.4f}" if 0 < abs(value) < 0.1 else f"{value:.2f}"


def as_json(measurements: list[Measurement]) -> str:
    return json.dumps([_as_object(measurement) for measurement in measurements], indent=2)


def _as_object(measurement: Measurement) -> dict:
    benchmark = measurement.benchmark
    return {
        "name": benchmark.name,
        "peer_name": benchmark.peer,
        "unit": benchmark.unit,
        "where": benchmark.runner.where,
        "ours": measurement.ours,
        "peer": measurement.peer,
        "ratio": measurement.ratio,
        "goal": str(benchmark.goal) if benchmark.goal else None,
        "met": measurement.met if benchmark.goal else None,
        "problem": measurement.problem or None,
    }
