"""What a request comes to: the lanes and checks to run, and the builds they need."""

from collections.abc import Callable
from dataclasses import dataclass

from rdmaxx_test import lanes, testbed_selftest
from rdmaxx_test.checks import PREFIX, Check, registry
from rdmaxx_test.command_line import Request
from rdmaxx_test.lanes import Lane


@dataclass
class Plan:
    lanes: list[Lane]
    checks: list[Check]
    selftest: bool

    def keep_lanes(self, condition: Callable[[Lane], bool]) -> None:
        self.lanes = [lane for lane in self.lanes if condition(lane)]

    def lanes_in_guest(self) -> list[Lane]:
        return [lane for lane in self.lanes if lane.kernel]

    def lanes_here(self) -> list[Lane]:
        return [lane for lane in self.lanes if not lane.kernel]


def make(request: Request) -> Plan:
    here = request.wants_lane("host")
    return Plan(
        lanes=[lane for lane in _lanes(request) if _wants_lane(request, lane)],
        checks=[check for check in registry.ALL if here and _wants_check(request, check)],
        selftest=here and _wants_selftest(request),
    )


def _lanes(request: Request) -> list[Lane]:
    if request.selection.names_only(PREFIX):
        return []
    found = lanes.host_lanes(quick=request.quick)
    if request.device:
        return found + lanes.own_device_lanes(request.device)
    found += lanes.soft_lanes(quick=request.quick)
    if not request.quick:
        found += lanes.guest_lanes(full=request.full)
    return found


def _wants_lane(request: Request, lane: Lane) -> bool:
    if lane.thorough and not request.full and not request.lanes:
        return False
    return request.wants_lane(lane.name)


def _wants_check(request: Request, check: Check) -> bool:
    if request.quick and not check.cheap:
        return False
    selection = request.selection
    if check.thorough and not request.full and not selection.words:
        return False
    return selection.covers(check.suite) or selection.names_case_of(check.suite)


def _wants_selftest(request: Request) -> bool:
    if request.quick or request.device:
        return False
    return request.selection.covers(testbed_selftest.SUITE) and testbed_selftest.PROGRAM.exists()
