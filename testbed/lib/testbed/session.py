"""Guests from the moment they start until there is an exit code: waiting, time limit, verdict."""

import enum
import sys
import time
from collections.abc import Callable

from .failure import EXIT_KERNEL_WARNING, EXIT_TESTBED, EXIT_TIMEOUT
from .progress import say
from .running_guest import RunningGuest

TICK_SECONDS = 0.05
BOOT_SECONDS = 240  # usually 5 to 10; a host that is very busy can make it minutes
BOOT_ATTEMPTS = 3


class Outcome(enum.Enum):
    ENDED = "the guests have ended"
    OUT_OF_TIME = "the time limit was exceeded"
    BOOT_FAILED = "a guest died before any command had started"


def boot_until_it_works(attempt: Callable[[bool], int | None]) -> int:
    """Calls attempt(is_last) until it returns an exit code instead of None, which means that the boot failed.

    The emulator has a rare race, seen only on very busy hosts: a guest's kernel patches its own code while booting
    and then trips over the old one. No command has run by then, so trying again is harmless.
    """
    for number in range(1, BOOT_ATTEMPTS + 1):
        code = attempt(number == BOOT_ATTEMPTS)
        if code is not None:
            return code
        say("booting once more")
    return EXIT_TESTBED


def run_to_end(
    guests: list[RunningGuest],
    time_limit: float,
    on_tick: Callable[[list[RunningGuest]], None] | None = None,
    verbose: bool = False,
) -> Outcome:
    """Lets the commands start as soon as all guests are up, and waits for the guests to end.

    The limit is the commands' alone, so that a test has as much time on a slow machine as on a fast one.
    """
    deadline = time.monotonic() + BOOT_SECONDS
    permitted = False
    while not all(guest.has_ended for guest in guests):
        if not permitted and all(guest.control.is_ready for guest in guests):
            for guest in guests:
                guest.control.permit()
            permitted = True
            deadline = time.monotonic() + time_limit if time_limit else float("inf")
            if verbose:
                say(f"the commands start, {time.monotonic() - guests[0].started_at:.1f} s after QEMU")
        if any(guest.output_is_closed for guest in guests):
            _kill_all(guests)
        if permitted and on_tick:
            on_tick(guests)
        if time.monotonic() > deadline:
            for guest in guests:
                if not guest.has_ended:
                    say(f"{guest.label} has used up its time of {time_limit if permitted else BOOT_SECONDS:g} s")
                    guest.show_processes()
            return Outcome.OUT_OF_TIME
        if not permitted and any(guest.has_ended for guest in guests):
            break  # the others would wait for it forever
        time.sleep(TICK_SECONDS)
    if permitted or any(guest.control.failure or guest.output_is_closed for guest in guests):
        return Outcome.ENDED
    return Outcome.BOOT_FAILED


def _kill_all(guests: list[RunningGuest]) -> None:
    for guest in guests:
        guest.kill()


def verdict(guest: RunningGuest, outcome: Outcome, allow_kernel_warnings: bool) -> int:
    """The exit code for one guest; says why if it is not the command's own."""
    status = guest.control.status
    if status is None and outcome is Outcome.OUT_OF_TIME:
        guest.show_console()
        say(f"{guest.label} was ended by the time limit")
        return EXIT_TIMEOUT
    if status is None:
        if guest.output_is_closed:
            return EXIT_TESTBED
        failure = guest.control.failure
        say(f"{guest.label} {'could not be set up: ' + failure if failure else 'died before its command ended'}")
        guest.show_console()
        return EXIT_TESTBED
    return _status_after_kernel_warnings(guest, status, allow_kernel_warnings)


def _status_after_kernel_warnings(guest: RunningGuest, status: int, allow_kernel_warnings: bool) -> int:
    warnings = guest.control.kernel_warnings()
    if not warnings:
        return status
    say(f"{guest.label}: the kernel reported a problem:")
    print(*(f"    {line}" for line in warnings), sep="\n", file=sys.stderr, flush=True)
    if status == 0 and not allow_kernel_warnings:
        say("so this run counts as failed, although the command succeeded (--allow-kernel-warnings lets it pass)")
        return EXIT_KERNEL_WARNING
    return status
