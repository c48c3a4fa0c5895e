"""The repository's checks. Each one is a row `check: <name>` of the matrix.

A check is a module with a function `run(wanted)` that yields findings; `wanted(case)` tells whether
a case was asked for. registry.py lists them all.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One case of a check; no problem means that it holds."""

    case: str
    problem: str = ""


PREFIX = "check: "
Wanted = Callable[[str], bool]


@dataclass(frozen=True)
class Check:
    name: str
    run: Callable[[Wanted], Iterable[Finding]]
    cheap: bool = False
    thorough: bool = False  # in ./test --full alone, or when asked for by name

    @property
    def suite(self) -> str:
        return PREFIX + self.name
