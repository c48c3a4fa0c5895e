"""The repository's checks. Each one is a row `check: <name>` of the matrix.

A check is a module with a function `run(wanted)` that yields findings; `wanted(case)` tells whether
a case was asked for. registry.py lists them all.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One case of a check; no problem means that it holds, unless `skipped` says why it could not be tried."""

    case: str
    problem: str = ""
    skipped: str = ""

    def __post_init__(self) -> None:
        assert not (self.problem and self.skipped), "a case that was not tried has no problem"


PREFIX = "check: "
ONLY_ROOT = "only root can make network namespaces"  # the reason of many a skip
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
