"""Asks a GoogleTest program which tests it has."""

import subprocess
from pathlib import Path

from rdmaxx_test.selection import Selection

TIMEOUT = 60  # seconds; it takes milliseconds


class ListingFailure(Exception):
    """The program ended before it had told all its tests: nobody knows which are missing."""


def tests_of(program: Path, selection: Selection) -> list[str]:
    """Titles `suite.test` of the selected tests."""
    command = [program, "--gtest_list_tests", f"--gtest_filter={selection.gtest_filter()}"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise ListingFailure(f"{program.name} --gtest_list_tests: {failure}") from failure
    if listed.returncode != 0:
        raise ListingFailure(
            f"{program.name} --gtest_list_tests ended with {listed.returncode}:\n{listed.stdout[-500:]}{listed.stderr[-2000:]}"
        )
    return parse(listed.stdout)


def parse(listing: str) -> list[str]:
    titles, suite = [], ""
    for line in listing.splitlines():
        name = line.split("#")[0].rstrip()
        if line.startswith("  "):
            if not name.strip().startswith("DISABLED_"):  # a check runs those
                titles.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return titles
