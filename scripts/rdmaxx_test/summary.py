"""The end of a run, for a person: the matrix, the failures, the reasons for skips, the times."""

from collections import defaultdict

from rdmaxx_test.checks import PREFIX
from rdmaxx_test.results import LaneReport, Outcome, Test

MESSAGE_LINES = 60


def render(tests: list[Test], reports: list[LaneReport], lane_order: list[str]) -> str:
    sections = [
        _matrix(tests, lane_order),
        _failures(tests),
        _skips(tests),
        _times(reports),
        totals(tests),
    ]
    return "\n\n".join(section for section in sections if section)


def totals(tests: list[Test]) -> str:
    return ", ".join(f"{_count(tests, outcome)} {outcome.value}" for outcome in Outcome)


def _count(tests: list[Test], outcome: Outcome) -> int:
    return sum(test.outcome is outcome for test in tests)


def _matrix(tests: list[Test], lane_order: list[str]) -> str:
    cells: dict[tuple[str, str], list[Test]] = defaultdict(list)
    for test in tests:
        cells[test.suite, test.lane].append(test)
    suites = sorted({suite for suite, _ in cells}, key=lambda suite: (suite.startswith(PREFIX), suite))
    lanes = [lane for lane in lane_order if any(lane == used for _, used in cells)]
    rows = [["suite", *lanes]]
    rows += [[suite, *(_cell(cells.get((suite, lane), [])) for lane in lanes)] for suite in suites]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))])
        for row in rows
    )


def _cell(tests: list[Test]) -> str:
    if not tests:
        return "-"
    failed, skipped = _count(tests, Outcome.FAILED), _count(tests, Outcome.SKIPPED)
    if failed:
        return f"FAIL {failed}/{len(tests)}"
    return f"{len(tests) - skipped}+{skipped}s" if skipped else str(len(tests))


def _failures(tests: list[Test]) -> str:
    entries = []
    for test in tests:
        if test.outcome is Outcome.FAILED:
            lines = test.message.rstrip().splitlines()
            shown = lines[:MESSAGE_LINES]
            if len(lines) > len(shown):
                shown.append(f"… and {len(lines) - len(shown)} more lines")
            entries.append("\n    ".join([f"FAILED {test.title} [{test.lane}]", *shown]))
    return "\n".join(entries)


def _skips(tests: list[Test]) -> str:
    """Tests are counted by lane, for many lanes lack the same; cases of checks are named."""
    reasons: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    names: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for test in tests:
        if test.outcome is not Outcome.SKIPPED:
            continue
        if test.suite.startswith(PREFIX):
            names[test.message][test.suite].append(test.name)
        else:
            reasons[test.message][test.lane] += 1
    if not reasons and not names:
        return ""
    lines = [
        f"  {reason}: " + ", ".join(f"{count} on {lane}" for lane, count in lanes.items())
        for reason, lanes in sorted(reasons.items())
    ]
    lines += [
        f"  {reason}: {suite}: {'; '.join(cases)}"
        for reason, suites in sorted(names.items())
        for suite, cases in suites.items()
    ]
    return "\n".join(["skipped:", *lines])


def _times(reports: list[LaneReport]) -> str:
    """The longest first. Parts run beside each other, so that they may add up to more than the whole took."""
    spent: dict[str, float] = defaultdict(float)
    for report in reports:
        spent[report.lane] += report.seconds
    longest_first = sorted(spent.items(), key=lambda part: -part[1])
    told = [f"{name} {seconds:.0f} s" for name, seconds in longest_first if seconds >= 0.5]
    return f"times: {', '.join(told)}" if told else ""
