"""What ./test can be asked."""

import argparse
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rdmaxx_test.selection import Selection

DESCRIPTION = """\
Builds rdmaxx and tests it: unit tests (plain, with sanitizers, with Clang), device tests on the
kernel's rxe and siw devices in a QEMU guest, and the repository's checks. Prints a matrix of what
passed where; the last line is `N passed, N failed, N skipped`.
"""

EXAMPLES = """\
examples:
  ./test --quick                 unit tests and cheap checks, in seconds
  ./test completion_queue        whatever has that in its name, in every lane
  ./test 'check: *'              only the checks
  ./test --lane rxe queue_pair   one lane
  ./test --device mlx5_0         the device tests on this machine's mlx5_0

Logs and reports of the last run are in build/test-runs/latest.
"""


@dataclass(frozen=True)
class Request:
    selection: Selection
    lanes: tuple[str, ...]
    quick: bool
    full: bool
    device: str | None
    list_only: bool
    verbose: bool

    def wants_lane(self, name: str) -> bool:
        return not self.lanes or any(fnmatchcase(name, pattern) for pattern in self.lanes)


def parse(arguments: list[str]) -> Request:
    parser = argparse.ArgumentParser(
        prog="./test",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("filter", nargs="*", help="part of a suite's, test's or check's name, or a glob")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="no guest, no sanitizers, cheap checks only")
    extent.add_argument("--full", action="store_true", help="also the newer kernel, a pair of guests, thread sanitizer in the guest and the testbed's long test")
    parser.add_argument("--device", metavar="NAME", help="use this machine's device instead of the guest's")
    parser.add_argument("--lane", action="append", default=[], metavar="LANE",
                        help="only these lanes (may be repeated; a glob; exact otherwise)")
    parser.add_argument("--list", action="store_true", help="say what would run, and stop")
    parser.add_argument("--keep-going", action="store_true", help="the default: a failure stops nothing else")
    parser.add_argument("--verbose", action="store_true", help="show all output of the tests as it comes")
    found = parser.parse_args(arguments)
    return Request(
        selection=Selection(tuple(found.filter)),
        lanes=tuple(found.lane),
        quick=found.quick,
        full=found.full,
        device=found.device,
        list_only=found.list,
        verbose=found.verbose,
    )
