"""What a test run consists of."""

from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Test:
    """One result. The suite is its row in the matrix, the lane its column."""

    lane: str
    suite: str
    name: str
    outcome: Outcome
    message: str = ""

    @property
    def title(self) -> str:
        return f"{self.suite}.{self.name}" if self.name else self.suite


@dataclass(frozen=True)
class LaneReport:
    lane: str
    tests: list[Test]
    seconds: float
