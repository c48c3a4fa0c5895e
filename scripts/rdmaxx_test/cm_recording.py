"""Recordings of what a connection manager does (tests/softverbs/cm_oracle/cm_oracle.cpp), and how two of them differ.

A recording has, for each scenario, the steps of each side in their order: calls with what they returned, and events.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from rdmaxx_project.repository import ROOT

Step = dict[str, object]
Scenario = dict[str, list[Step]] | str  # a string says why there are no steps
Recording = dict[str, Scenario]

RXE = ROOT / "tests/data/cm_oracle_rxe.json"

# Where softverbs does otherwise than the kernel: a place, as `differences` names it, and why. A scenario's name stands
# for all of its places.
ACCEPTED: dict[str, str] = {
    # The loopback has a soft device, and none of the kernel's.
    "resolve_loopback": "127.0.0.1 has a device",
    "resolve_from_loopback": "127.0.0.1 has a device",
    "resolve_from_loopback_to_own": "127.0.0.1 has a device",
    "resolve_wildcard": "the wildcard stands for 127.0.0.1, which has a device",
    "two_specific_and_loopback": "127.0.0.1 is an address like others",
    # REUSEADDR: processes know of each other only what a name says.
    "two_wildcard_then_specific_reused": "only the same address can be shared",
    "two_specific_then_wildcard_reused": "only the same address can be shared",
    "two_specific_reused": "the first who listens has the port",
    # The kernel knows that the port is in use with another address and refuses in its name.
    "listen_wildcard_ipv4_not_reached_by_ipv6": "nobody listens there: 8, not 28",
    "listen_ipv6_only_not_reached_by_ipv4": "nobody listens there: 8, not 28",
    # A request is repeated after 0.2 s, then 0.4 s …, not after 4 s.
    "backlog_of_1": "what found no room comes again sooner",
    "backlog_of_2": "what found no room comes again sooner",
    "connect_with_a_used_number": "the number of a queue pair in use is no sign of a stale connection",
    # rxe rounds up to powers of two.
    "reads_answered_above": "what was agreed on is set exactly",
    "reads_of_max_answered": "what was agreed on is set exactly",
    "multicast_join_ipv6": "IPv6 groups work",
    "migrate_a_listener": "requests are not lost",
}


def read(file: Path) -> Recording:
    return json.loads(file.read_text())


def written(recording: Recording) -> str:
    """As the program writes it: a line for each step."""

    def compact(value: object) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    def listed(items: list[str], opening: str, closing: str) -> str:
        return "".join([opening, *(f"{',' if number else ''}\n{item}" for number, item in enumerate(items)), "\n", closing])

    def scenario(steps: Scenario) -> str:
        if isinstance(steps, str):
            return compact(steps)
        sides = [
            f"  {compact(side)}: " + listed([f"    {compact(step)}" for step in done], "[", "  ]")
            for side, done in steps.items()
        ]
        return listed(sides, "{", "}")

    return listed([f"{compact(name)}: {scenario(steps)}" for name, steps in recording.items()], "{", "}\n")


def differences(ours: Recording, theirs: Recording, accepted: Mapping[str, str] | None = None) -> list[str]:
    """One line for each difference that is not accepted, and for each accepted one that is not there."""
    accepted = accepted or {}
    found = {
        place: text
        for name in [*theirs, *(name for name in ours if name not in theirs)]
        for place, text in _in_scenario(name, ours.get(name), theirs.get(name))
    }
    needed = {entry for place in found for entry in _covering(place) if entry in accepted}
    return [
        *(f"{place}: {text}" for place, text in found.items() if not set(_covering(place)) & set(accepted)),
        *(f"{entry}: accepted, but there is no difference" for entry in accepted if entry not in needed),
    ]


def _covering(place: str) -> Iterator[str]:
    yield place
    yield place.split("/")[0]


def _in_scenario(name: str, ours: Scenario | None, theirs: Scenario | None) -> Iterator[tuple[str, str]]:
    """Places such as `disconnect_twice/active/4/errno`, with what is there."""
    if ours is None or theirs is None:
        yield name, "only in the recording" if ours is None else "not in the recording"
    elif isinstance(ours, str) or isinstance(theirs, str):
        if ours != theirs:
            yield name, f"{_told(ours)} instead of {_told(theirs)}"
    else:
        for side in dict.fromkeys([*theirs, *ours]):
            for number, (mine, other) in enumerate(zip_longest(ours.get(side, []), theirs.get(side, []))):
                yield from _in_step(f"{name}/{side}/{number}", mine, other)


def _in_step(place: str, mine: Step | None, other: Step | None) -> Iterator[tuple[str, str]]:
    if mine is None or other is None or _kind(mine) != _kind(other):
        yield place, f"{_told(mine)} instead of {_told(other)}"
        return
    for key in dict.fromkeys([*other, *mine]):
        if mine.get(key) != other.get(key):
            yield f"{place}/{key}", f"{mine.get(key)} instead of {other.get(key)} ({_kind(mine)})"


def _kind(step: Step) -> str:
    """Which call or event it is; only the same ones are compared field by field."""
    return str(step.get("call") or step.get("event") or step.get("look") or "")


def _told(what: Scenario | Step | None) -> str:
    if what is None:
        return "nothing"
    if isinstance(what, str):
        return what
    return _kind(what) or json.dumps(what)
