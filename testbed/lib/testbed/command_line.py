"""The command line of testbed/guest."""

import argparse
import os
import signal
import sys
import textwrap
from pathlib import Path

from .accelerator import choose_accelerator
from .environment import command_environment
from .failure import EXIT_KERNEL_WARNING, EXIT_TESTBED, EXIT_TIMEOUT, EXIT_USAGE, Failure, UsageError
from .initramfs import prepare_initramfs
from .kernel import META_PACKAGES, newest_cached_kernel, offered_kernel, prepare_kernel
from .machine import BootFiles, Machine
from .packages import program
from .pair import run_pair
from .progress import say
from .request import Request
from .siw import prepare_siw
from .single import run_shell, run_single

DESCRIPTION = """\
Runs a command in a virtual machine that has software RDMA devices, and exits with the command's exit code.

The guest runs one of the distribution's kernels. It sees the host's files at their own paths and may write
anywhere, but whatever it writes is forgotten, except below --out directories. The command starts in the
current directory, as root, with /dev/null as its input; its output appears here while it is printed.
"""

EPILOG = f"""\
devices in the guest (environment variables in brackets):
  rxe0     RoCE v2   10.77.0.1  fd77::1   [RDMAXX_TESTBED_RXE_ADDRESS, ..._RXE_ADDRESS6]
  siw0     iWARP     10.78.0.1  fd78::1   [RDMAXX_TESTBED_SIW_ADDRESS, ..._SIW_ADDRESS6]
  --wire:  r0        10.79.0.1  fd79::1   [RDMAXX_TESTBED_WIRE0_ADDRESS, ..._WIRE0_ADDRESS6]
           r1        10.79.0.2  fd79::2   [RDMAXX_TESTBED_WIRE1_ADDRESS, ..._WIRE1_ADDRESS6]
  --pair:  guest b's addresses end in 2; the other one's are in RDMAXX_TESTBED_PEER_RXE_ADDRESS and so on,
           the own name (a or b) in RDMAXX_TESTBED_ROLE, and a directory that both share in
           RDMAXX_TESTBED_SHARED. Both commands start when both guests are up. A file named kill-peer in
           the shared directory kills guest b at once.
  RDMAXX_TESTBED is 1 and RDMAXX_TESTBED_KERNEL is the kernel's version, such as 6.1.190-1.

exit codes:
  the command's own; 128 + N if signal N ended it; 127 if it does not exist; and
  {EXIT_USAGE:3}  bad options, or a package is missing on the host
  {EXIT_KERNEL_WARNING:3}  the command succeeded, but the guest's kernel reported a bug
  {EXIT_TIMEOUT:3}  the time limit ended the guest
  {EXIT_TESTBED:3}  the guest could not be prepared, did not boot, or died

examples:
  testbed/guest -- ibv_devinfo
  testbed/guest --out build/results --env GTEST_COLOR=yes -- build/tests/verbs_test
  testbed/guest -- bash -c 'rping -s -a 10.77.0.1 -C 3 & sleep 1; rping -c -a 10.77.0.1 -C 3 -v'
  testbed/guest --wire --loss 1 -- bash -c 'ibv_rc_pingpong -d r0 -g 1 & sleep 1; ibv_rc_pingpong -d r1 -g 1 10.79.0.1'
  testbed/guest --pair -- rping -s -C 3 --peer bash -c 'sleep 1; rping -c -a 10.77.0.1 -C 3'
  testbed/guest --kernel 6.12 --shell
"""


def main(arguments: list[str]) -> int:
    # Anything that politely asks us to end ends the guests too, by way of their context managers.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _raise_interrupt)
    try:
        return _run(arguments)
    except Failure as failure:
        say(f"error: {failure}")
        return failure.exit_code
    except KeyboardInterrupt as interrupt:
        say("interrupted; the guest was ended")
        return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)


def _raise_interrupt(number: int, _frame) -> None:
    raise KeyboardInterrupt(number)


def _run(arguments: list[str]) -> int:
    options, command = _parse(arguments)
    if options.print_kernel:
        return _print_kernel(options.kernel)
    if options.prepare:
        _check(not command and not options.shell, "--prepare takes neither a command nor --shell")
        choose_accelerator(options.accel, _prepare(options.kernel))
        return 0
    request = _request(options, command)
    program("qemu-system-x86_64")  # complain now, not after minutes of preparation
    boot = _prepare(request.series)
    machine = Machine(
        boot=boot,
        accelerator=choose_accelerator(request.accelerator, boot),
        memory_mib=request.memory_mib,
        cpus=request.cpus,
        console_log=Path(os.devnull),
    )
    if options.shell:
        return run_shell(request, machine)
    if request.peer_command is not None:
        return run_pair(request, machine)
    return run_single(request, machine)


def _prepare(series: str) -> BootFiles:
    files = prepare_kernel(series)
    siw = prepare_siw(files.kernel)
    initramfs = prepare_initramfs(files, siw)
    return BootFiles(files.image, initramfs, version=files.kernel.version, release=files.kernel.release)


def _print_kernel(series: str) -> int:
    kernel = offered_kernel(series) or newest_cached_kernel(series)
    if kernel is None:
        raise Failure(f"no {series} kernel: apt knows none, and none is cached")
    print(f"{kernel.version} ({kernel.release})")
    return 0


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    # Split before parsing, so that no option of the command can be mistaken for one of ours.
    before, command = arguments, []
    if "--" in arguments:
        position = arguments.index("--")
        before, command = arguments[:position], arguments[position + 1:]
    return _parser().parse_args(before), command


def _request(options: argparse.Namespace, command: list[str]) -> Request:
    peer_command = None
    if options.pair:
        _check("--peer" in command, "--pair needs two commands: testbed/guest --pair -- COMMAND... --peer COMMAND...")
        position = command.index("--peer")
        command, peer_command = command[:position], command[position + 1:]
        _check(bool(peer_command), "--pair: there is no command after --peer")
        _check(not options.wire, "--pair and --wire exclude each other: two guests have a network between them")
    if options.shell:
        _check(not command and not options.pair, "--shell takes no command, and cannot be combined with --pair")
        _check(sys.stdin.isatty() and sys.stdout.isatty(), "--shell needs a terminal as input and output")
    else:
        _check(bool(command), "there is no command; it follows two dashes, as in: testbed/guest -- ibv_devinfo")
    _check(options.wire or not (options.loss or options.delay), "--loss and --delay need --wire")
    _check(options.pair or options.kill_peer_after is None, "--kill-peer-after needs --pair")
    time_limit = options.timeout
    if time_limit is None:
        time_limit = 0 if options.shell else 900
    return Request(
        series=options.kernel,
        accelerator=options.accel,
        memory_mib=options.memory,
        cpus=options.cpus or (1 if options.pair else 2),
        time_limit=time_limit,
        environment=command_environment(options.env),
        directory=Path.cwd(),
        out_directories=[_out_directory(name) for name in options.out],
        command=command,
        wire=options.wire,
        loss_percent=options.loss,
        delay_ms=options.delay,
        peer_command=peer_command,
        kill_peer_after=options.kill_peer_after,
        allow_kernel_warnings=options.allow_kernel_warnings,
        verbose=options.verbose,
    )


def _out_directory(name: str) -> Path:
    path = Path(name).resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {name}: {error.strerror}") from error
    _check(os.access(path, os.W_OK), f"--out {name}: you may not write into this directory")
    return path


def _check(holds: bool, complaint: str) -> None:
    if not holds:
        raise UsageError(complaint)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="testbed/guest",
        usage="testbed/guest [options] -- COMMAND...\n"
        "       testbed/guest [options] --pair -- COMMAND... --peer COMMAND...\n"
        "       testbed/guest [options] --shell | --prepare | --print-kernel",
        description=textwrap.dedent(DESCRIPTION),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what to run")
    what.add_argument("--shell", action="store_true", help="an interactive bash in the guest, without a time limit")
    what.add_argument("--pair", action="store_true", help="two guests, a and b, joined by a virtual network")
    what.add_argument("--kill-peer-after", type=_seconds, metavar="SECONDS",
                      help="with --pair: kill guest b so long after the commands have started, as a power cut would; "
                           "its end then does not count as a failure")
    what.add_argument("--prepare", action="store_true", help="fill the cache (kernel, siw, initramfs) and run nothing")
    what.add_argument("--print-kernel", action="store_true", help="print which kernel would run, and exit")

    machine = parser.add_argument_group("the machine")
    machine.add_argument("--kernel", choices=sorted(META_PACKAGES), default="6.1",
                         help="series of the kernel; the newest of it that apt offers is used (default: 6.1)")
    machine.add_argument("--accel", choices=["auto", "kvm", "tcg"], default="auto",
                         help="hardware virtualisation, emulation, or the former only where a guest has been seen "
                              "to boot with it (default: auto)")
    machine.add_argument("--memory", type=_mebibytes, default=2048, metavar="SIZE",
                         help="memory, as in 2G or 512M (default: 2G)")
    machine.add_argument("--cpus", type=_cpus, metavar="N", help="processors (default: 2; with --pair 1 each)")

    network = parser.add_argument_group("the network")
    network.add_argument("--wire", action="store_true",
                         help="also two rxe devices, r0 and r1, whose packets really cross a virtual cable")
    network.add_argument("--loss", type=_percent, default=0, metavar="PERCENT",
                         help="with --wire: packets lost in each direction")
    network.add_argument("--delay", type=_milliseconds, default=0, metavar="MS",
                         help="with --wire: milliseconds of delay in each direction")

    run = parser.add_argument_group("the run")
    run.add_argument("--out", action="append", default=[], metavar="DIR",
                     help="a directory that the guest really writes to, at the same path; created if need be; "
                          "may be repeated")
    run.add_argument("--env", action="append", default=[], metavar="NAME[=VALUE]",
                     help="set a variable for the command, or pass on one from here; may be repeated. Passed on "
                          "without asking: PATH, HOME, LANG, TERM and the like, RDMAXX_*, GTEST_*, *SAN_OPTIONS")
    run.add_argument("--timeout", type=_seconds, metavar="SECONDS",
                     help="end a guest whose command takes longer, and show what it was doing; 0 for no limit "
                          "(default: 900)")
    run.add_argument("--allow-kernel-warnings", action="store_true",
                     help="do not fail because the guest's kernel reported a bug")
    run.add_argument("--verbose", action="store_true", help="say what is going on, and when")
    return parser


def _number(text: str, unit: str, lowest: float, highest: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of {unit}") from None
    if not lowest <= value <= highest:
        raise argparse.ArgumentTypeError(f"{text} is not between {lowest:g} and {highest:g} {unit}")
    return value


def _seconds(text: str) -> float:
    return _number(text, "seconds", 0, 1e6)


def _percent(text: str) -> float:
    return _number(text, "percent", 0, 100)


def _milliseconds(text: str) -> float:
    return _number(text, "milliseconds", 0, 10_000)


def _cpus(text: str) -> int:
    return int(_number(text, "processors", 1, 64))


def _mebibytes(text: str) -> int:
    units = {"": 1, "M": 1, "G": 1024}
    unit = text[-1:].upper() if text[-1:].isalpha() else ""
    if unit not in units:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 2G or 512M")
    return int(_number(text[:len(text) - len(unit)], "mebibytes", 0.25, 1 << 20) * units[unit])
