"""RoCEv2 packets of a recording, as tshark understands them; their ICRC is checked with zlib's CRC."""

import struct
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROCE_PORT = 4791
ICRC_BYTES = 4
UDP_BYTES = 8
LINK_BYTES = {1: 14, 101: 0}  # Ethernet, raw IP

# tshark's names of what we compare.
FIELDS = {
    "opcode": "infiniband.bth.opcode",
    "solicited": "infiniband.bth.se",
    "migrated": "infiniband.bth.m",
    "pad": "infiniband.bth.padcnt",
    "version": "infiniband.bth.tver",
    "partition": "infiniband.bth.p_key",
    "ack request": "infiniband.bth.a",
    "PSN": "infiniband.bth.psn",
    "remote length": "infiniband.reth.dmalen",
    "syndrome": "infiniband.aeth.syndrome",
    "MSN": "infiniband.aeth.msn",
    "swap or add": "infiniband.atomiceth.swapdt",
    "compare": "infiniband.atomiceth.cmpdt",
    "original": "infiniband.atomicacketh.origremdt",
    "immediate": "infiniband.immdt",
    "management": "infiniband.mad.attributeid",
    "payload and pad": "data.data",
}
# They guess at what a payload could be.
GUESSERS = ("smc", "smb_direct", "rpcordma", "nvme-rdma", "lnet", "iser", "fcoib", "infiniband_sdp", "infiniband.eoib", "drbd")
REMARKS = {"remarks": "_ws.expert.message", "severities": "_ws.expert.severity"}
SEPARATOR = "|"  # between remarks
WARNING = 0x600000  # less severe ones tell what a port number could mean

SERVICES = {0x00: "RC", 0x20: "UC", 0x40: "RD", 0x60: "UD", 0xA0: "XRC"}
OPERATIONS = {
    0x00: "SEND first",
    0x01: "SEND middle",
    0x02: "SEND last",
    0x03: "SEND last with immediate",
    0x04: "SEND only",
    0x05: "SEND only with immediate",
    0x06: "WRITE first",
    0x07: "WRITE middle",
    0x08: "WRITE last",
    0x09: "WRITE last with immediate",
    0x0A: "WRITE only",
    0x0B: "WRITE only with immediate",
    0x0C: "READ request",
    0x0D: "READ response first",
    0x0E: "READ response middle",
    0x0F: "READ response last",
    0x10: "READ response only",
    0x11: "ACK",
    0x12: "atomic ACK",
    0x13: "compare and swap",
    0x14: "fetch and add",
    0x16: "SEND last with invalidate",
    0x17: "SEND only with invalidate",
}
# Messages of the connection manager, by the attribute of their MAD (16.7.3).
CM_MESSAGES = {
    0x10: "REQ",
    0x11: "MRA",
    0x12: "REJ",
    0x13: "REP",
    0x14: "RTU",
    0x15: "DREQ",
    0x16: "DREP",
    0x17: "SIDR_REQ",
    0x18: "SIDR_REP",
}
NAKS = {0x60: "sequence", 0x61: "invalid request", 0x62: "remote access", 0x63: "remote operational"}


@dataclass
class Packet:
    number: int
    fields: dict[str, str] = field(default_factory=dict)  # by the names of FIELDS, as tshark wrote them
    complaints: list[str] = field(default_factory=list)
    type_of_service: int = 0  # or IPv6's traffic class

    @property
    def kind(self) -> str:
        """Such as `RC SEND only`, `RC NAK sequence` or `CM REQ`."""
        if self.fields.get("management"):
            attribute = int(self.fields["management"], 0)
            return f"CM {CM_MESSAGES.get(attribute, f'attribute {attribute:#x}')}"
        opcode = int(self.fields["opcode"], 0)
        service = SERVICES.get(opcode & 0xE0, f"service {opcode >> 5}")
        return f"{service} {self._answer() or OPERATIONS.get(opcode & 0x1F, f'operation {opcode:#x}')}"

    def _answer(self) -> str:
        # Of XRC tshark 4.0 knows the opcodes, and nothing behind the BTH.
        if int(self.fields["opcode"], 0) & 0x1F != 0x11 or not self.fields["syndrome"]:
            return ""
        syndrome = int(self.fields["syndrome"], 0)
        if syndrome >> 5 == 1:
            return "NAK receiver not ready"
        return f"NAK {NAKS[syndrome]}" if syndrome in NAKS else ""

    def __str__(self) -> str:
        return f"packet {self.number} ({self.kind})"


def read(file: Path) -> list[Packet]:
    raw = list(_raw_packets(file))
    ports = {struct.unpack_from(">H", packet, _udp_at(packet) + 2)[0] for packet in raw}
    packets = list(_dissected(file, ports))
    if len(packets) != len(raw):
        raise ValueError(f"{file}: tshark found {len(packets)} packets of {len(raw)}")
    for packet, content in zip(packets, raw, strict=True):
        packet.type_of_service = _type_of_service(content)
        if not icrc_holds(content):
            packet.complaints.append("the ICRC is wrong")
    return packets


def icrc_holds(packet: bytes) -> bool:
    """Annex A17.3.3: over everything, with ones for what a router may change. From the IP header on."""
    udp_at = _udp_at(packet)
    covered = bytearray(packet[:-ICRC_BYTES])
    if udp_at == 20:
        changing = [1, 8, 10, 11]  # type of service, time to live, checksum
    else:
        covered[0] |= 0x0F  # traffic class and flow label
        changing = [1, 2, 3, 7]
    for position in [*changing, udp_at + 6, udp_at + 7, udp_at + UDP_BYTES + 4]:
        covered[position] = 0xFF
    sum_of_all = zlib.crc32(b"\xff" * 8 + covered)
    return sum_of_all == int.from_bytes(packet[-ICRC_BYTES:], "little")


def _udp_at(packet: bytes) -> int:
    return 20 if packet[0] >> 4 == 4 else 40


def _type_of_service(packet: bytes) -> int:
    is_ipv4 = packet[0] >> 4 == 4
    return packet[1] if is_ipv4 else (int.from_bytes(packet[:2], "big") >> 4) & 0xFF


def _raw_packets(file: Path) -> Iterator[bytes]:
    content = file.read_bytes()
    link_bytes = LINK_BYTES[struct.unpack_from("<I", content, 20)[0]]
    position = 24
    while position < len(content):
        stored = struct.unpack_from("<I", content, position + 8)[0]
        position += 16
        yield content[position + link_bytes : position + stored]
        position += stored


def _dissected(file: Path, ports: set[int]) -> Iterator[Packet]:
    names = {**FIELDS, **REMARKS}
    # A device of the same host is reached at a port of its own.
    decode_as = [word for port in sorted(ports - {ROCE_PORT}) for word in ("-d", f"udp.port=={port},infiniband")]
    guess_nothing = [word for name in GUESSERS for word in ("--disable-protocol", name)]
    wanted = [word for name in names.values() for word in ("-e", name)]
    checks = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]
    output = ["-T", "fields", "-E", "separator=/t", "-E", f"aggregator={SEPARATOR}", *wanted]
    listing = subprocess.run(
        ["tshark", "-r", file, *decode_as, *guess_nothing, *checks, *output],
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        raise ValueError(f"tshark does not read {file}: {listing.stderr}")
    for number, line in enumerate(listing.stdout.splitlines(), 1):
        found = dict(zip(names, line.split("\t"), strict=True))
        yield Packet(number, found, list(_complaints(found.pop("remarks"), found.pop("severities"))))


def _complaints(remarks: str, severities: str) -> Iterator[str]:
    if severities:
        for remark, severity in zip(remarks.split(SEPARATOR), severities.split(SEPARATOR), strict=True):
            if int(severity, 0) >= WARNING:
                yield f"tshark: {remark}"
