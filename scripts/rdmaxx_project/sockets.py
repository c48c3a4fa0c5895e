"""What the kernel tells about sockets: whether somebody listens yet, and which ports are free."""

import ipaddress
import socket
import threading
from pathlib import Path

TCP, UDP, IB = 0x106, 0x111, 0x13F  # port spaces of librdmacm
LISTENING = "0A"  # as /proc/net/tcp writes the state

_ports_given: set[int] = set()
_ports_lock = threading.Lock()


def free_port() -> int:
    """One that no other caller has been given."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with _ports_lock:
            if port not in _ports_given:
                _ports_given.add(port)
                return port


# Of this process's network namespace, or that of another.
OWN = "self"


def is_listening(port: int, process: int | str = OWN) -> bool:
    tables = (Path(f"/proc/{process}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    return any(_has_listener(table, port) for table in tables)


def is_member_of(group: str, port: int, process: int | str = OWN) -> bool:
    """Whether somebody has bound the port of that multicast group."""
    number = int.from_bytes(ipaddress.IPv4Address(group).packed, "little")
    return f" {number:08X}:{port:04X} " in Path(f"/proc/{process}/net/udp").read_text()


def offers_service(port_space: int, port: int, process: int | str = OWN) -> bool:
    """Whether a softverbs process listens there with its connection manager."""
    return f"@softverbs/service/{port_space << 16 | port:x}/" in Path(f"/proc/{process}/net/unix").read_text()


def _has_listener(table: str, port: int) -> bool:
    for line in table.splitlines()[1:]:
        columns = line.split()
        if columns[3] == LISTENING and int(columns[1].rpartition(":")[2], 16) == port:
            return True
    return False
