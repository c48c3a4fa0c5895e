"""What libsoftverbs sends is what others expect: tshark understands it, and rxe sends the same.

A program causes packets of every kind, libsoftverbs records them (SOFTVERBS_CAPTURE), and tshark and a
recording of the kernel's rxe are asked about them.
"""

import shlex
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from rdmaxx_project import presets, processes, sockets
from rdmaxx_project.repository import BUILD, ROOT
from rdmaxx_test import roce_capture, two_sides
from rdmaxx_test.checks import Finding, Wanted, programs
from rdmaxx_test.roce_capture import Packet

PRESET = programs.PRESET
RXE = ROOT / "tests/data/roce/rc_uc_operations.pcap"
FOLDER = BUILD / "checks" / "capture"
TIMEOUT = 60
LOSS = "loss=0.05,seed=3"

MESSAGE_PARTS = ["first", "middle", "last", "only", "last with immediate", "only with immediate"]
ANSWERED = [
    *(f"{operation} {part}" for operation in ("SEND", "WRITE") for part in MESSAGE_PARTS),
    "READ request",
    *(f"READ response {part}" for part in ("first", "middle", "last", "only")),
    "compare and swap",
    "fetch and add",
    "atomic ACK",
    "ACK",
]
RELIABLE = [
    *ANSWERED,
    "SEND last with invalidate",
    "SEND only with invalidate",
    "NAK sequence",
    "NAK invalid request",
    "NAK remote access",
    "NAK remote operational",
    "NAK receiver not ready",
]
EVERY_KIND = {
    *(f"RC {kind}" for kind in RELIABLE),
    *(f"XRC {kind}" for kind in ANSWERED),
    "XRC SEND last with invalidate",
    "XRC SEND only with invalidate",
    *(f"UC {operation} {part}" for operation in ("SEND", "WRITE") for part in MESSAGE_PARTS),
    "UD SEND only",
    "UD SEND only with immediate",
}

CONNECTING = {f"CM {message}" for message in ("REQ", "REP", "RTU", "DREQ")}
# Where both sides disconnect at once, both may leave without an answer.
SOMETIMES = {"CM DREP"}
CM_SCENES = {
    "connection": ("rping -s -a {address} -p {port} -C 2", "rping -c -a {address} -p {port} -C 2", "", CONNECTING),
    "service": ("udaddy -b {address}", "udaddy -s {address}", "", {"CM SIDR_REQ", "CM SIDR_REP"}),
    "refusal": (
        "rping -s -a {address} -p {port} -C 2",
        "rping -c -a {address} -p {port} -C 2",
        "reject=28",
        {"CM REQ", "CM REJ"},
    ),
}

# Where we answer otherwise than rxe does: (field, ours, rxe's) and why.
ALLOWED = {
    ("syndrome", "97", "99"): "a message that is longer than its receive request is an invalid request "
    "(9.7.4.1.6, table 57); rxe calls it a remote operational error",
}


def run(wanted: Wanted) -> Iterable[Finding]:
    try:
        presets.build(PRESET, "softverbs", "capture_traffic")
    except presets.BuildFailure as failure:
        yield Finding("build", failure.output)
        return
    cases: dict[str, Callable[[], list[str]]] = {
        "rxe's packets are understood": lambda: complaints(roce_capture.read(RXE)),
        "every kind over IPv4": lambda: _every_kind(programs.IPV4),
        "every kind over IPv6": lambda: _every_kind(programs.IPV6),
        "the same packets as rxe": lambda: differences(
            roce_capture.read(_record("recorded", programs.IPV4)), roce_capture.read(RXE)
        ),
        "two processes, one file": _two_processes,
        "what the other one sent": _received,
        "a type of service": _type_of_service,
        "messages of the connection manager over IPv4": lambda: _connection_manager("127.0.0.1"),
        "messages of the connection manager over IPv6": lambda: _connection_manager("::1"),
    }
    for name, case in cases.items():
        if wanted(name):
            try:
                yield Finding(name, "\n".join(case()))
            except RecordingFailure as failure:
                yield Finding(name, str(failure))


class RecordingFailure(Exception):
    """A program whose packets were wanted has failed."""


def complaints(packets: list[Packet]) -> list[str]:
    return [f"{packet}: {text}" for packet in packets for text in packet.complaints]


def differences(ours: list[Packet], theirs: list[Packet]) -> list[str]:
    ours, theirs = without_repeats(ours), without_repeats(theirs)
    found = []
    for mine, other in zip(ours, theirs, strict=False):
        for name, value in mine.fields.items():
            if value != other.fields[name] and (name, value, other.fields[name]) not in ALLOWED:
                found.append(f"{mine}: {name} is {value}, in rxe's {other} {other.fields[name]}")
    if len(ours) != len(theirs):
        found.append(f"{len(ours)} packets instead of {len(theirs)}")
    return found


def without_repeats(packets: list[Packet]) -> list[Packet]:
    """How often a request is repeated until the receiver is ready is a matter of time."""
    kept: list[Packet] = []
    for packet in packets:
        kept.append(packet)
        if len(kept) >= 4 and [each.fields for each in kept[-2:]] == [each.fields for each in kept[-4:-2]]:
            del kept[-2:]
    return kept


def _every_kind(gid: int) -> list[str]:
    packets = []
    for scene, faults in (("recorded", ""), ("kinds", ""), ("transfer", LOSS)):
        packets += roce_capture.read(_record(scene, gid, faults))
    found = {packet.kind for packet in packets}
    return [
        *complaints(packets),
        *(f"never sent: {kind}" for kind in sorted(EVERY_KIND - found)),
        *(f"not known: {kind}" for kind in sorted(found - EVERY_KIND)),
    ]


def _record(scene: str, gid: int, faults: str = "") -> Path:
    file = _new_file(f"{scene}-{gid}.pcap")
    log = file.with_suffix(".log")
    program = presets.directory(PRESET) / "tests/capture_traffic"
    status = processes.run(
        [program, programs.DEVICE, str(gid), scene],
        log,
        timeout=TIMEOUT,
        environment=_environment(file) | {"SOFTVERBS_FAULTS": faults},
    )
    if status != 0:
        raise RecordingFailure(f"capture_traffic {scene}: exit status {status}\n{processes.tail(log)}")
    return file


def _two_processes() -> list[str]:
    file = _new_file("two-processes.pcap")
    port = sockets.free_port()
    meeting = programs.Meeting("ib_write_bw -s 10000 -n 20")
    problem = two_sides.run(
        meeting.sides(port), lambda: sockets.is_listening(port), FOLDER, _environment(file), TIMEOUT
    )
    if problem:
        raise RecordingFailure(problem)
    packets = roce_capture.read(file)
    senders = {packet.kind for packet in packets}
    missing = {"RC WRITE first", "RC WRITE last", "RC ACK"} - senders
    return [*complaints(packets), *(f"never sent: {kind}" for kind in sorted(missing))]


def _received() -> list[str]:
    """Only the server records: what the client sends is in its file because it was received."""
    file = _new_file("received.pcap")
    port = sockets.free_port()
    sides = programs.Meeting("ib_write_bw -s 10000 -n 20").sides(port)
    silent = two_sides.Sides(sides.server, [["env", "-u", "SOFTVERBS_CAPTURE", *client] for client in sides.clients])
    problem = two_sides.run(silent, lambda: sockets.is_listening(port), FOLDER, _environment(file), TIMEOUT)
    if problem:
        raise RecordingFailure(problem)
    packets = roce_capture.read(file)
    missing = {"RC WRITE first", "RC WRITE middle", "RC WRITE last", "RC ACK"} - {packet.kind for packet in packets}
    return [*complaints(packets), *(f"not recorded: {kind}" for kind in sorted(missing))]


def _type_of_service() -> list[str]:
    """RDMA_OPTION_ID_TOS of the client is what the packets of both directions carry."""
    wanted = 0x68
    file = _new_file("type-of-service.pcap")
    port = sockets.free_port()
    common = ["ib_send_bw", "-R", "-F", "-s", "10000", "-n", "20", "-p", str(port), f"--tos={wanted}"]
    problem = two_sides.run(
        two_sides.Sides(common, [[*common, "127.0.0.1"]]),
        partial(sockets.offers_service, sockets.TCP, port),
        FOLDER,
        _environment(file),
        TIMEOUT,
    )
    if problem:
        raise RecordingFailure(problem)
    packets = roce_capture.read(file)
    # Who receives does not know it: there it is recorded as 0.
    with_it = {packet.kind for packet in packets if packet.type_of_service == wanted}
    missing = {"RC SEND first", "RC SEND middle", "RC SEND last", "RC ACK"} - with_it
    return [*complaints(packets), *(f"not with type of service {wanted}: {kind}" for kind in sorted(missing))]


def _connection_manager(address: str) -> list[str]:
    found: list[str] = []
    for scene, (server, client, faults, wanted) in CM_SCENES.items():
        file = _new_file(f"cm-{scene}-{'6' if ':' in address else '4'}.pcap")
        is_udaddy = server.startswith("udaddy")
        port = sockets.free_port()
        words = [shlex.split(command.format(address=address, port=port)) for command in (server, client)]
        space, at = (sockets.UDP, two_sides.UDADDY_PORT) if is_udaddy else (sockets.TCP, port)
        problem = two_sides.run(
            two_sides.Sides(words[0], [words[1]]),
            partial(sockets.offers_service, space, at),
            FOLDER,
            _environment(file) | {"SOFTVERBS_FAULTS": faults},
            TIMEOUT,
        )
        if problem and not faults:
            raise RecordingFailure(problem)
        packets = roce_capture.read(file)
        kinds = {packet.kind for packet in packets}
        found += complaints(packets)
        found += [f"{scene}: never sent: {kind}" for kind in sorted(wanted - kinds)]
        unknown = {kind for kind in kinds if kind.startswith("CM ") and kind not in wanted | SOMETIMES}
        found += [f"{scene}: not expected: {kind}" for kind in sorted(unknown)]
    return found


def _new_file(name: str) -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / name
    file.unlink(missing_ok=True)
    return file


def _environment(file: Path) -> dict[str, str]:
    return programs.environment() | {"SOFTVERBS_CAPTURE": str(file)}
