"""A variant of the library sees what is posted and polled, and no program can have two variants (tests/variant)."""

import re
from collections.abc import Iterable

from rdmaxx_project import presets, processes
from rdmaxx_project.repository import BUILD
from rdmaxx_test.checks import Finding, Wanted

PRESET = "dev"
PROGRAM = "variant_tests"
TWO_IN_ONE = "two_variants"
COLLISION = re.compile("multiple definition of [`'\"]?rdmaxx_one_variant_per_program")
LIMIT = 60  # seconds


def run(wanted: Wanted) -> Iterable[Finding]:
    if wanted("counts"):
        yield Finding("counts", _counting_problem())
    if wanted("do not link together"):
        yield Finding("do not link together", _linking_problem())


def _counting_problem() -> str:
    try:
        presets.build(PRESET, PROGRAM)
    except presets.BuildFailure as failure:
        return failure.output
    log = BUILD / "checks" / "variants.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    status = processes.run([presets.directory(PRESET) / "tests" / PROGRAM], log, timeout=LIMIT)
    return "" if status == 0 else f"exit status {status}\n{processes.tail(log)}"


def _linking_problem() -> str:
    try:
        presets.build(PRESET, TWO_IN_ONE)
    except presets.BuildFailure as failure:
        return "" if COLLISION.search(failure.output) else failure.output
    return "a program with two variants of the library links"
