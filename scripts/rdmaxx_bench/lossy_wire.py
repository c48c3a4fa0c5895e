"""One sample of WRITEs over a cable with delay and loss, in the guest: python3 -m rdmaxx_bench.lossy_wire soft|rxe

softverbs needs a namespace for each side, or it would find that both are on one host; rxe works in the first
namespace alone, where rules of routing send its packets through the cable. Both cables are the same: a veth pair of MTU
1500 with 10 ms and 1 % loss in each direction.
"""

import json
import subprocess
import sys
import time

from rdmaxx_bench.runners import PRESET
from rdmaxx_bench.sides import free_port, parse_perftest
from rdmaxx_project import presets

DELAY = "10ms"
LOSS = "1%"
SIZE = 64 << 10
MESSAGES = 400
IN_FLIGHT = 128
LIMIT = 60  # seconds
SIDES = {"a": "10.90.0.1", "b": "10.90.0.2"}


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _impair(device: str, *where: str) -> None:
    _do("tc", *where, "qdisc", "replace", "dev", device, "root", "netem", "limit", "100000", "loss", LOSS, "delay", DELAY)


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
        _impair(name, "-n", name)


def _impair_rxe_devices() -> None:
    for end in ("wire0", "wire1"):
        _impair(end)


def _perftest(device: str, port: int, *rest: str) -> list[str]:
    options = f"-F -d {device} -x 1 -s {SIZE} -n {MESSAGES} -t {IN_FLIGHT} -Q 1 -p {port}".split()
    return ["timeout", str(LIMIT), "ib_write_bw", *options, *rest]


def _sides(kind: str, port: int) -> tuple[list[str], list[str]]:
    if kind == "rxe":
        _impair_rxe_devices()
        return _perftest("r0", port), _perftest("r1", port, "127.0.0.1")
    _join_namespaces()
    library = presets.directory(PRESET) / "lib" / "libsoftverbs.so"
    soft = ["env", f"LD_PRELOAD={library}", "SOFTVERBS_REAL=0"]
    within = {side: ["ip", "netns", "exec", f"lossy-{side}", *soft] for side in SIDES}
    return (
        within["a"] + _perftest("soft_lossy-a", port),
        within["b"] + _perftest("soft_lossy-b", port, SIDES["a"]),
    )


def main(kind: str) -> int:
    port = free_port()
    server_command, client_command = _sides(kind, port)
    with subprocess.Popen(server_command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        for _ in range(20):  # until it listens, in whatever namespace: the client says when it could not connect
            time.sleep(0.5)
            client = subprocess.run(client_command, check=False, capture_output=True, text=True)
            if client.returncode == 0 or server.poll() is not None:
                break
        server.kill()
    if client.returncode != 0:
        print(client.stdout, client.stderr)
        return client.returncode
    print(json.dumps(parse_perftest(client.stdout, SIZE)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
