"""All C++ is formatted as .clang-format says. `scripts/format` puts it right."""

import subprocess
from collections.abc import Iterable

from rdmaxx_project import repository
from rdmaxx_test.checks import Finding, Wanted

CLANG_FORMAT = "clang-format-19"


def run(wanted: Wanted) -> Iterable[Finding]:
    paths = repository.files(*repository.CPP_SUFFIXES)
    if not paths:
        return
    checked = subprocess.run(
        [CLANG_FORMAT, "--dry-run", "-Werror", *paths], capture_output=True, text=True, check=False
    )
    badly = sorted({line.split(":")[0] for line in checked.stderr.splitlines() if ": error:" in line})
    problem = ""
    if checked.returncode != 0:
        names = [name.removeprefix(f"{repository.ROOT}/") for name in badly] or [checked.stderr]
        problem = "\n".join(["not formatted (run scripts/format):", *names])
    yield Finding("sources", problem)
