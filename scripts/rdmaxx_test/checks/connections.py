"""The connection manager of softverbs does what the kernel's was recorded with, call by call and event by event."""

import os
import subprocess
from collections.abc import Iterable

from rdmaxx_project import presets, progress
from rdmaxx_project.repository import BUILD
from rdmaxx_test import cm_recording, lanes, peers
from rdmaxx_test.checks import ONLY_ROOT, Finding, Wanted

PRESETS = ("dev", *lanes.SANITIZERS)
PROGRAM = "cm_oracle_soft"
FOLDER = BUILD / "checks" / "connections"
TIMEOUT = 400  # seconds; an idle machine needs a twentieth of it
# As in the guest.
NETWORK = "10.77.0"
MTU = 9000
SLOW = "unanswered_"  # scenarios that wait for minutes


def run(wanted: Wanted) -> Iterable[Finding]:
    if os.geteuid() != 0:
        yield from (Finding(preset, skipped=ONLY_ROOT) for preset in filter(wanted, PRESETS))
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for preset in filter(wanted, PRESETS):
        try:
            presets.build(preset, PROGRAM)
            with peers.two_hosts(NETWORK) as hosts:
                peers.set_mtu(hosts, MTU)
                yield Finding(preset, _differences(preset, hosts[0]))
        except presets.BuildFailure as failure:
            yield Finding(preset, failure.output)
        except peers.Failure as failure:
            yield Finding(preset, str(failure))


def _differences(preset: str, host: peers.Host) -> str:
    theirs = {
        name: steps for name, steps in cm_recording.read(cm_recording.RXE).items() if not name.startswith(SLOW)
    }
    progress.moving(f"connections: {len(theirs)} scenarios, {preset}")
    scenarios = [word for name in theirs for word in ("--scenario", name)]
    program = str(presets.directory(preset) / "tests" / PROGRAM)
    command = [*lanes.launcher(preset), program, "--address", host.ipv4, "--address6", host.ipv6, *scenarios]
    environment = {"SOFTVERBS_NETDEVS": f"{host.netdev},lo", "SOFTVERBS_REAL": "0"}
    recording, log = FOLDER / f"{preset}.json", FOLDER / f"{preset}.log"
    with recording.open("w") as output, log.open("w") as messages:
        status = subprocess.run(
            [*host.prefix, *command],
            env={**os.environ, **environment},
            stdout=output,
            stderr=messages,
            timeout=TIMEOUT,
            check=False,
        ).returncode
    if status != 0:
        return f"{PROGRAM} ended with {status}:\n{log.read_text(errors='replace')[-2000:]}"
    return "\n".join(cm_recording.differences(cm_recording.read(recording), theirs, cm_recording.ACCEPTED))
