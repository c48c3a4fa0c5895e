"""Programs that measure one side of a comparison: one run of one program gives one sample.

A sample maps statistics to values: "median" and "mean" are latencies in µs, half of a round trip;
"bandwidth" is in GB/s (10⁹ bytes). Of a ping-pong, the bandwidth is that of one message at a time.
"""

import json
import re
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from rdmaxx_bench.problems import Unmeasured
from rdmaxx_project import processes
from rdmaxx_project.background import Program, wait
from rdmaxx_project.repository import ROOT
from rdmaxx_project.sockets import free_port, is_listening

Sample = dict[str, float]
Environment = tuple[tuple[str, str], ...]

MEBIBYTES = 1.048576e-3  # GB/s of one MiB/s
TIME_TO_FOLLOW = 3  # seconds that the server has to end after the client


class Side(ABC):
    """Subclasses are values: equal ones measure the same thing, and it is measured once for all rows."""

    @abstractmethod
    def sample(self, logs: Path, timeout: float) -> Sample:
        """Raises Unmeasured."""


def _need(program: str, package: str) -> None:
    if not shutil.which(program):
        raise Unmeasured(f"{program} is missing (Debian package {package})")


def ping_pong(size: int, mean: float, median: float | None = None) -> Sample:
    return {"mean": mean, "bandwidth": size / mean / 1000} | ({} if median is None else {"median": median})


# ── those of one process ──


@dataclass(frozen=True)
class JsonProgram(Side):
    """A program of benchmarks/ that prints its sample as its last line."""

    command: tuple[str, ...]  # the program relative to the repository
    environment: Environment = ()

    def sample(self, logs: Path, timeout: float) -> Sample:
        program, *arguments = self.command
        output = _run_alone([str(ROOT / program), *arguments], logs, dict(self.environment), timeout)
        return parse_json(output)


def parse_json(output: str) -> Sample:
    try:
        sample = json.loads(output.strip().splitlines()[-1])
        return {statistic: float(value) for statistic, value in sample.items()}
    except (IndexError, AttributeError, TypeError, ValueError) as error:
        raise Unmeasured(f"no sample in the last line: {error!r}\n{output}") from None


@dataclass(frozen=True)
class UcxWithItself(Side):
    """One thread of ucx_perftest that talks to itself."""

    test: str
    size: int
    messages: int
    transports: str

    def sample(self, logs: Path, timeout: float) -> Sample:
        _need("ucx_perftest", "ucx-utils")
        command = _ucx_command(self.test, self.size, self.messages, 0)
        return parse_ucx(_run_alone([*command, "-l"], logs, _ucx_environment(self.transports), timeout))


def _run_alone(command: list[str], logs: Path, environment: dict[str, str], timeout: float) -> str:
    log = logs / "alone.log"
    try:
        status = processes.run(command, log, timeout=timeout, environment=environment)
    except OSError as error:
        raise Unmeasured(f"{command[0]} could not be started: {error}") from None
    if status != 0:
        raise Unmeasured(f"{' '.join(command)} ended with status {status}:\n{processes.tail(log)}")
    return log.read_text(errors="replace")


# ── those of a server and a client ──


@dataclass(frozen=True)
class Perftest(Side):
    """A program of perftest, such as ib_send_lat."""

    program: str
    size: int
    messages: int
    environment: Environment = ()
    device: str = "soft0"
    gid_index: int = 1
    address: str = "127.0.0.1"

    def sample(self, logs: Path, timeout: float) -> Sample:
        _need(self.program, "perftest")
        port = free_port()
        options = f"-F -d {self.device} -x {self.gid_index} -s {self.size} -n {self.messages} -p {port}".split()
        server = [self.program, *options]
        return parse_perftest(
            run_pair(server, [*server, self.address], port, logs, dict(self.environment), timeout), self.size
        )


def parse_perftest(output: str, size: int) -> Sample:
    row = re.search(rf"^ {size}\s+\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)(?:\s+([\d.]+))?", output, re.MULTILINE)
    if not row:
        raise Unmeasured(f"perftest printed no result:\n{output}")
    if "t_typical" in output:
        return ping_pong(size, mean=float(row[4]), median=float(row[3]))
    return {"bandwidth": float(row[2]) * MEBIBYTES}


@dataclass(frozen=True)
class Ucx(Side):
    test: str
    size: int
    messages: int
    transports: str  # UCX_TLS
    environment: Environment = ()

    def sample(self, logs: Path, timeout: float) -> Sample:
        _need("ucx_perftest", "ucx-utils")
        port = free_port()
        server = _ucx_command(self.test, self.size, self.messages, port)
        client = [*server, "127.0.0.1"]
        environment = _ucx_environment(self.transports) | dict(self.environment)
        return parse_ucx(run_pair(server, client, port, logs, environment, timeout))


def _ucx_command(test: str, size: int, messages: int, port: int) -> list[str]:
    warm_up = max(messages // 10, 1)
    at = f"-p {port}".split() if port else []
    return f"ucx_perftest -f -v -t {test} -s {size} -n {messages} -w {warm_up}".split() + at


def _ucx_environment(transports: str) -> dict[str, str]:
    only_loopback = {"UCX_NET_DEVICES": "lo"} if "tcp" in transports else {}
    return {"UCX_TLS": transports, "UCX_WARN_UNUSED_ENV_VARS": "n", **only_loopback}


def parse_ucx(output: str) -> Sample:
    names = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,"
    table = output.partition(names)[2].splitlines()[1:]
    try:
        values = [float(value) for value in table[-1].split(",")]
        return {"median": values[1], "mean": values[3], "bandwidth": values[5] * MEBIBYTES}
    except (IndexError, ValueError):
        raise Unmeasured(f"ucx_perftest printed no result:\n{output}") from None


@dataclass(frozen=True)
class Libfabric(Side):
    """fi_pingpong: it knows no stream, and no median."""

    provider: str
    size: int
    messages: int

    def sample(self, logs: Path, timeout: float) -> Sample:
        _need("fi_pingpong", "libfabric-bin")
        port = free_port()
        options = ["-p", self.provider, "-e", "rdm", "-I", str(self.messages), "-S", str(self.size)]
        server = ["fi_pingpong", *options, "-B", str(port)]
        client = ["fi_pingpong", *options, "-P", str(port), "127.0.0.1"]
        environment = {"FI_TCP_IFACE": "lo", "FI_UDP_IFACE": "lo"}
        return parse_fi_pingpong(run_pair(server, client, port, logs, environment, timeout), self.size)


def parse_fi_pingpong(output: str, size: int) -> Sample:
    table = output.partition("usec/xfer")[2].splitlines()[1:]
    try:
        return ping_pong(size, mean=float(table[0].split()[6]))
    except (IndexError, ValueError):
        raise Unmeasured(f"fi_pingpong printed no result:\n{output}") from None


# ── running them ──


def run_pair(
    server: list[str], client: list[str], port: int, logs: Path, environment: dict[str, str], timeout: float
) -> str:
    """Starts the client once the server listens; returns what the client printed. Raises Unmeasured."""
    logs.mkdir(parents=True, exist_ok=True)
    with Program(server, logs / "server.log", environment) as serving:
        wait(lambda: is_listening(port) or serving.status is not None, timeout)
        if serving.status is not None or not is_listening(port):
            raise Unmeasured(f"{serving} does not listen:\n{serving.tail()}")
        log = logs / "client.log"
        status = processes.run(client, log, timeout=timeout, environment=environment)
        wait(lambda: serving.status is not None, TIME_TO_FOLLOW)
    if status != 0:
        outputs = f"{processes.tail(log)}\nThe server:\n{serving.tail()}"
        raise Unmeasured(f"{' '.join(client)} ended with status {status}:\n{outputs}")
    return log.read_text(errors="replace")
