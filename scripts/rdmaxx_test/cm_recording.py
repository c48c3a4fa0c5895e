"""Recordings of what a connection manager does (tests/softverbs/cm/cm_oracle.cpp), and how two of them differ.

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
ACCEPTED: dict[str, str] = {}


def read(file: Path) -> Recording:
    return json.loads(file.read_text())


def differences(ours: Recording, theirs: Recording, accepted: Mapping[str, str] = ACCEPTED) -> list[str]:
    """One line for each difference that is not accepted, and for each accepted one that is not there."""
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
