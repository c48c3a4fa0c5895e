"""`rdmaxx soft` and `./run soft` become the program that they are given: its arguments, its exit code, its signals."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rdmaxx_project import presets, processes
from rdmaxx_project.repository import ROOT
from rdmaxx_test.checks import Finding, Wanted

PRESET = "dev"
TIMEOUT = 60  # seconds
TIMEOUT_OF_RUN = 1200  # ./run builds first, on a machine that may be busy
LOOPBACK = {"SOFTVERBS_NETDEVS": "lo"}
ODD_WORDS = ["", "[a,b]", "two words", "*", "$HOME", "a'b\"c", "-x", "--help", "--", "ä"]


def run(wanted: Wanted) -> Iterable[Finding]:
    try:
        presets.build(PRESET, "rdmaxx_tool", "softverbs")
    except presets.BuildFailure as failure:
        yield Finding("build", failure.output)
        return
    tool = [str(presets.directory(PRESET) / "tools/rdmaxx")]
    cases: dict[str, Callable[[], str]] = {
        "rdmaxx soft: a program finds the device": lambda: _device(tool),
        "rdmaxx soft: arguments arrive as they are": lambda: _arguments(tool),
        "rdmaxx soft: the exit code is the program's": lambda: _exit_codes(tool),
        "rdmaxx soft: a signal's death is the program's": lambda: _killed(tool),
        "rdmaxx soft: signals reach the program": lambda: _signalled(tool),
        "rdmaxx soft: standard input and output are the program's": lambda: _piped(tool),
        "rdmaxx soft: what was preloaded stays": lambda: _preloaded(tool),
        "rdmaxx soft: without a program it says how": lambda: _usage(tool),
        "./run soft: arguments and exit code": _through_run,
    }
    for name, case in cases.items():
        if wanted(name):
            yield Finding(name, case())


def _start(
    command: list[str], timeout: float = TIMEOUT, given: str = "", preloaded: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env=os.environ | LOOPBACK | ({"LD_PRELOAD": preloaded} if preloaded else {}),
        cwd=ROOT,
    )


def _unless(holds: bool, done: subprocess.CompletedProcess[str]) -> str:
    if holds:
        return ""
    return f"{done.args}: exit status {done.returncode}\n{done.stdout}{done.stderr}"


def _device(tool: list[str]) -> str:
    done = _start([*tool, "soft", "--", "ibv_devices"])
    return _unless(done.returncode == 0 and "soft0" in done.stdout, done)


def _arguments(tool: list[str]) -> str:
    done = _start([*tool, "soft", "--", "printf", "[%s]", *ODD_WORDS])
    return _unless(done.returncode == 0 and done.stdout.endswith("".join(f"[{word}]" for word in ODD_WORDS)), done)


def _exit_codes(tool: list[str]) -> str:
    for code in (0, 1, 7, 255):
        done = _start([*tool, "soft", "--", "sh", "-c", f"exit {code}"])
        if done.returncode != code:
            return _unless(False, done)
    missing = _start([*tool, "soft", "--", "no-such-program"])
    if missing.returncode != 127 or "no-such-program" not in missing.stderr:
        return _unless(False, missing)
    folder = _start([*tool, "soft", "--", "/"])
    return _unless(folder.returncode == 126, folder)


def _killed(tool: list[str]) -> str:
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
        done = _start([*tool, "soft", "--", "sh", "-c", f"kill -{int(number)} $$"])
        if done.returncode != -number:
            return _unless(False, done)
    return ""


def _signalled(tool: list[str]) -> str:
    """The program has the number of the process that was started: there is nobody in between."""
    script = "trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep 0.05; done"
    words = [*tool, "soft", "--", "sh", "-c", script]
    with processes.beside(words, output=subprocess.PIPE, errors=subprocess.DEVNULL) as started:
        if started.stdout.readline() != "ready\n":
            return "the program did not start"
        command = Path(f"/proc/{started.pid}/comm").read_text().strip()
        started.send_signal(signal.SIGUSR1)
        printed = started.stdout.read()
        status = started.wait(TIMEOUT)
    if (command, printed, status) == ("sh", "caught\n", 3):
        return ""
    return f"process {command!r} printed {printed!r} and ended with {status}"


def _piped(tool: list[str]) -> str:
    done = _start([*tool, "soft", "--", "cat"], given="a line\n")
    return _unless(done.returncode == 0 and done.stdout == "a line\n" and not done.stderr, done)


def _preloaded(tool: list[str]) -> str:
    script = 'echo "$LD_PRELOAD"'
    done = _start([*tool, "soft", "--", "sh", "-c", script], preloaded="libm.so.6")
    words = done.stdout.strip().split(":")
    return _unless(len(words) == 2 and words[0].endswith("libsoftverbs.so.0") and words[1] == "libm.so.6", done)


def _usage(tool: list[str]) -> str:
    done = _start([*tool, "soft"])
    if done.returncode == 0 or "PROGRAM" not in done.stdout + done.stderr:
        return _unless(False, done)
    helped = _start([*tool, "soft", "--help"])
    return _unless(helped.returncode == 0 and "LD_PRELOAD" in helped.stdout, helped)


def _through_run() -> str:
    started = time.monotonic()
    script = 'printf "[%s]" "$@"; exit 7'
    command = [str(ROOT / "run"), "soft", "--", "sh", "-c", script, "sh", *ODD_WORDS]
    try:
        done = _start(command, TIMEOUT_OF_RUN)
    except subprocess.TimeoutExpired:
        return f"./run did not end within {time.monotonic() - started:.0f} s"
    expected = "".join(f"[{word}]" for word in ODD_WORDS)
    return _unless(done.returncode == 7 and done.stdout.endswith(expected), done)
