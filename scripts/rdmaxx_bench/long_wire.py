"""One sample of WRITEs over a long cable, in the guest.

    python3 -m rdmaxx_bench.long_wire soft|rxe <round trip in milliseconds> <loss in percent> <messages>

softverbs needs a namespace for each side, or it would find that both are on one host; rxe works in the first
namespace alone, where rules of routing send its packets through the cable. Both cables are the same: a veth pair of MTU
1500 with netem's delay and loss in each direction.
"""

import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass

from rdmaxx_bench.runners import PRESET
from rdmaxx_bench.sides import free_port, parse_perftest
from rdmaxx_project import presets, processes

SIZE = 64 << 10
IN_FLIGHT = 512
LIMIT = 60  # seconds
SIDES = {"a": "10.90.0.1", "b": "10.90.0.2"}


@dataclass(frozen=True)
class Path:
    round_trip: float  # milliseconds
    loss: float  # percent

    @property
    def netem(self) -> list[str]:
        loss = ["loss", f"{self.loss}%"] if self.loss else []
        return ["netem", "limit", "100000", *loss, "delay", f"{self.round_trip / 2}ms"]


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _impair(path: Path, device: str, *where: str) -> None:
    subprocess.run(["tc", *where, "qdisc", "del", "dev", device, "root"], check=False, capture_output=True)
    _do("tc", *where, "qdisc", "add", "dev", device, "root", *path.netem)


def _join_namespaces() -> None:
    if subprocess.run(["ip", "netns", "pids", "lossy-a"], check=False, capture_output=True).returncode == 0:
        return  # by an earlier sample
    _do("ip", "link", "add", "lossy-a", "type", "veth", "peer", "name", "lossy-b")
    for side, address in SIDES.items():
        name = f"lossy-{side}"
        _do("ip", "netns", "add", name)
        _do("ip", "link", "set", name, "netns", name)
        _do("ip", "-n", name, "addr", "add", f"{address}/24", "dev", name)
        _do("ip", "-n", name, "link", "set", "lo", "up")
        _do("ip", "-n", name, "link", "set", name, "up")
        # A cable keeps the order of packets. This one does if one processor takes in all of them.
        _do("ip", "netns", "exec", name, "sh", "-c", f"echo 1 >/sys/class/net/{name}/queues/rx-0/rps_cpus")


def _perftest(device: str, port: int, messages: int, *rest: str) -> list[str]:
    options = f"-F -d {device} -x 1 -s {SIZE} -n {messages} -t {IN_FLIGHT} -Q 1 -p {port}".split()
    return ["timeout", str(LIMIT), "ib_write_bw", *options, *rest]


def _sides(kind: str, path: Path, port: int, messages: int) -> tuple[list[str], list[str]]:
    if kind == "rxe":
        for end in ("wire0", "wire1"):
            _impair(path, end)
        return _perftest("r0", port, messages), _perftest("r1", port, messages, "127.0.0.1")
    _join_namespaces()
    for side in SIDES:
        _impair(path, f"lossy-{side}", "-n", f"lossy-{side}")
    library = presets.directory(PRESET) / "lib" / "libsoftverbs.so"
    soft = ["env", f"LD_PRELOAD={library}", "SOFTVERBS_REAL=0", "SOFTVERBS_LOG=info"]
    within = {side: ["ip", "netns", "exec", f"lossy-{side}", *soft] for side in SIDES}
    return (
        within["a"] + _perftest("soft_lossy-a", port, messages),
        within["b"] + _perftest("soft_lossy-b", port, messages, SIDES["a"]),
    )


def main(kind: str, round_trip: str, loss: str, messages: str) -> int:
    port = free_port()
    server_command, client_command = _sides(kind, Path(float(round_trip), float(loss)), port, int(messages))
    with processes.beside(server_command) as server:
        for _ in range(20):  # until it listens, in whatever namespace: the client says when it could not connect
            time.sleep(0.5)
            client = subprocess.run(client_command, check=False, capture_output=True, text=True)
            if client.returncode == 0 or server.poll() is not None:
                break
    if client.returncode != 0:
        print(client.stdout, client.stderr)
        return client.returncode
    # Only softverbs tells what it has sent again.
    again = sum(map(int, re.findall(r"packets of requests sent, (\d+) of them again", client.stderr)))
    print(json.dumps(parse_perftest(client.stdout, SIZE) | {"again": again}))
    return 0


if __name__ == "__main__":
    processes.end_cleanly(lambda: main(*sys.argv[1:]))
