"""Asks a GoogleTest program which tests it has."""

import subprocess
from pathlib import Path

from rdmaxx_test.selection import Selection


def tests_of(program: Path, selection: Selection) -> list[str]:
    """Titles `suite.test` of the selected tests; none if there is no such program."""
    if not program.exists():
        return []
    listed = subprocess.run(
        [program, "--gtest_list_tests", f"--gtest_filter={selection.gtest_filter()}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return parse(listed.stdout)


def parse(listing: str) -> list[str]:
    titles, suite = [], ""
    for line in listing.splitlines():
        name = line.split("#")[0].rstrip()
        if line.startswith("  "):
            titles.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return titles
