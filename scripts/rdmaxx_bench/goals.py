"""What a benchmark is expected to reach."""

from dataclasses import dataclass
from typing import Protocol


class Goal(Protocol):
    def met(self, ours: float, peer: float) -> bool: ...

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class AtMostMore:
    """A cost may exceed the peer's by this much."""

    amount: float

    def met(self, ours: float, peer: float) -> bool:
        return ours - peer <= self.amount

    def __str__(self) -> str:
        return f"peer + {self.amount:g} at most"


@dataclass(frozen=True)
class RatioAtLeast:
    """Where more is better: ours / peer."""

    ratio: float

    def met(self, ours: float, peer: float) -> bool:
        return ours >= self.ratio * peer

    def __str__(self) -> str:
        return f"ratio ≥ {self.ratio:g}"


@dataclass(frozen=True)
class RatioAtMost:
    """Where less is better: ours / peer."""

    ratio: float

    def met(self, ours: float, peer: float) -> bool:
        return ours <= self.ratio * peer

    def __str__(self) -> str:
        return f"ratio ≤ {self.ratio:g}"
