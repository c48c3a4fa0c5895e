"""What a benchmark is expected to reach."""

from dataclasses import dataclass
from typing import ClassVar, Protocol


class Goal(Protocol):
    """Falsy if nothing is expected."""

    relative: ClassVar[bool]  # whether only the ratio of the two counts

    def met(self, ours: float, peer: float) -> bool: ...

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class NoGoal:
    """To be known, not to be reached."""

    relative: ClassVar[bool] = True

    def met(self, _ours: float, _peer: float) -> bool:
        return True

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "-"


@dataclass(frozen=True)
class Below:
    """Less than the peer; the aim is what we hope for beyond that."""

    relative: ClassVar[bool] = True
    aim: float | None = None

    def met(self, ours: float, peer: float) -> bool:
        return ours < peer

    def __str__(self) -> str:
        return "ratio < 1" + (f", aim {self.aim:g}" if self.aim else "")


@dataclass(frozen=True)
class Above:
    """More than the peer."""

    relative: ClassVar[bool] = True

    def met(self, ours: float, peer: float) -> bool:
        return ours > peer

    def __str__(self) -> str:
        return "ratio > 1"


@dataclass(frozen=True)
class AtMostMore:
    """A cost may exceed the peer's by this much."""

    relative: ClassVar[bool] = False
    amount: float

    def met(self, ours: float, peer: float) -> bool:
        return ours - peer <= self.amount

    def __str__(self) -> str:
        return f"peer + {self.amount:g} at most"


@dataclass(frozen=True)
class RatioAtLeast:
    """Where more is better: ours / peer."""

    relative: ClassVar[bool] = True
    ratio: float

    def met(self, ours: float, peer: float) -> bool:
        return ours >= self.ratio * peer

    def __str__(self) -> str:
        return f"ratio ≥ {self.ratio:g}"


@dataclass(frozen=True)
class RatioAtMost:
    """Where less is better: ours / peer."""

    relative: ClassVar[bool] = True
    ratio: float

    def met(self, ours: float, peer: float) -> bool:
        return ours <= self.ratio * peer

    def __str__(self) -> str:
        return f"ratio ≤ {self.ratio:g}"
