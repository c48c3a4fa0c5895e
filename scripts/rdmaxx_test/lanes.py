"""The lanes: which build of which test program runs where, and in which environment."""

from dataclasses import dataclass, replace
from pathlib import Path

from rdmaxx_project import presets
from rdmaxx_project.repository import ROOT

SANITIZERS = ("asan", "tsan")
HOST_PROGRAMS = ("unit_tests", "softverbs_unit_tests", "softverbs_abi_tests")
SOFT_DEVICE = "soft0"
SOFT_DEVICE_PROGRAM = "softverbs_device_tests"  # knows no other device
# Streams as a group has them. One test fills buffers that only a stream alone has.
GROUPED_TESTS = "streams.*:stream_*-stream_group.*:stream_failures.a_stream_that_ends_before_all_has_arrived_*"
GUEST_DEVICES = ("rxe", "siw")
GUEST_KERNEL = "6.1"
NEWER_GUEST_KERNEL = "6.12"


@dataclass(frozen=True)
class Lane:
    name: str
    preset: str
    program: str
    device: str | None = None
    kernel: str | None = None  # of the guest it runs in; None: on this machine
    timeout: int = 300
    pair: bool = False  # in two guests at once, each with its half of the tests
    without: str = ""  # a filter of GoogleTest: what other lanes run, unless it is asked for by name
    only: str = ""  # a filter of GoogleTest: what this lane is for, unless something is asked for by name
    grouped: bool = False  # streams share their resources
    thorough: bool = False  # only with --full, or if it is asked for by name

    @property
    def executable(self) -> Path:
        return presets.directory(self.preset) / "tests" / self.program

    @property
    def file_stem(self) -> str:
        # No dot: what is behind it would count as a suffix.
        return f"{self.name.translate(str.maketrans('/.', '-_'))}-{self.program}"

    def environment(self) -> dict[str, str]:
        variables = {}
        if self.device:
            variables["RDMAXX_TEST_DEVICE"] = self.device
        if self.kernel or self.device == SOFT_DEVICE:
            variables["SOFTVERBS_NETDEVS"] = "lo"  # tests stay at home, and soft devices out of the way
        if self.grouped:
            variables["RDMAXX_TEST_STREAM_GROUP"] = "1"
        return variables

    @property
    def is_partial(self) -> bool:
        """Whether the lane lacks tests that others have: there are no races without threads."""
        return bool(self.only) or (self.preset == "tsan" and self.program == "unit_tests")

    def command(self, gtest_filter: str, results: Path) -> list[str]:
        if gtest_filter == "*":
            gtest_filter = self.only or (f"*-{self.without}" if self.without else "*")
        # XML, not JSON: GoogleTest's JSON leaves out why a test was skipped.
        return [
            *launcher(self.preset),
            str(self.executable),
            "--gtest_color=no",
            f"--gtest_filter={gtest_filter}",
            f"--gtest_output=xml:{results}",
        ]


def host_lanes(*, quick: bool) -> list[Lane]:
    """The tests that need no device."""
    lanes = [("host", "dev")]
    if not quick:
        lanes += [(f"host/{preset}", preset) for preset in (*SANITIZERS, "clang")]
    return [Lane(name, preset, program) for name, preset in lanes for program in HOST_PROGRAMS]


def soft_lanes(*, quick: bool) -> list[Lane]:
    """The tests that need a device, on the one that every machine has."""
    lanes = _on_devices({"soft": SOFT_DEVICE}, None)
    lanes = lanes[:1] if quick else lanes
    lanes += [replace(lane, program=SOFT_DEVICE_PROGRAM) for lane in lanes]
    if not quick:
        lanes.append(replace(lanes[0], name="soft/group", only=GROUPED_TESTS, grouped=True))
    return lanes


def guest_lanes(*, full: bool) -> list[Lane]:
    """The tests that need a device, on the kernel's software devices."""
    first, *others = _on_devices({name: f"{name}0" for name in GUEST_DEVICES}, GUEST_KERNEL)
    # A test of the tests needs no device, and half a minute for a debugger in a guest: once is enough.
    lanes = [first, *(replace(lane, without="test_limit.*") for lane in others)]
    # Races of the library are found on the soft device, too, in a third of the time.
    lanes = [replace(lane, thorough=lane.preset == "tsan") for lane in lanes]
    if full:
        lanes += [
            Lane(f"{name}@{NEWER_GUEST_KERNEL}", "dev", "device_tests", f"{name}0", NEWER_GUEST_KERNEL)
            for name in GUEST_DEVICES
        ]
        lanes.append(Lane("pair", "dev", "pair_tests", "rxe0", GUEST_KERNEL, pair=True))
    return lanes


def own_device_lanes(device: str) -> list[Lane]:
    """The same tests on a device of this machine."""
    return _on_devices({device: device}, None)


def _on_devices(devices: dict[str, str], kernel: str | None) -> list[Lane]:
    plain = [Lane(name, "dev", "device_tests", device, kernel) for name, device in devices.items()]
    sanitized = [
        Lane(f"{name}/{preset}", preset, "device_tests", device, kernel, timeout=600)
        for preset in SANITIZERS
        for name, device in devices.items()
    ]
    return plain + sanitized


def launcher(preset: str) -> list[str]:
    """The command that runs a program of the preset, with the sanitizers' options; CTest has the same one."""
    return [str(ROOT / "tests" / "launch"), *(["--thread-sanitizer"] if preset == "tsan" else [])]
