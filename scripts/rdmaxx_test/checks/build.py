"""Everything compiles, with both compilers and not only what the tests need: tools, examples, benchmarks."""

from collections.abc import Iterable

from rdmaxx_project import presets
from rdmaxx_test.checks import Finding, Wanted

PRESETS = ("dev", "clang")


def run(wanted: Wanted) -> Iterable[Finding]:
    for preset in filter(wanted, PRESETS):
        try:
            presets.build(preset, keep_going=True)
        except presets.BuildFailure as failure:
            yield Finding(preset, failure.output)
        else:
            yield Finding(preset)
