"""The virtual machine: the QEMU command line for what a guest needs."""

from dataclasses import dataclass, field
from pathlib import Path

from .host_clock import counter_frequency_khz
from .packages import program

# mitigations=off and nokaslr: nothing to protect here, and both cost time under emulation.
# watchdog_thresh: a busy host must not look like a guest that is stuck.
KERNEL_ARGUMENTS = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr watchdog_thresh=60"
# Emulated: trust the time-stamp counter, which the 6.1 kernel would otherwise replace by one that is 20 times slower
# to read, and skip calibrating the delay loop.
EMULATED_KERNEL_ARGUMENTS = "tsc=reliable clocksource=tsc lpj=4000000"

ACCELERATORS = {
    # Emulation does `rep movsb` byte by byte; without these two CPU flags, neither kernel nor libc choose it.
    "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max,-erms,-fsrm"],
    "kvm": ["-accel", "kvm", "-cpu", "host"],
}


@dataclass(frozen=True)
class BootFiles:
    """What a guest boots from, and the name of it: version is the package's, release what uname -r prints."""

    image: Path
    initramfs: Path
    version: str
    release: str


@dataclass(frozen=True)
class Share:
    """A directory of the host that the guest can mount by its tag."""

    tag: str
    path: Path
    read_only: bool = False


@dataclass(frozen=True)
class NetworkCard:
    """A virtual network card whose cable is an open datagram socket."""

    mac: str
    cable: int


@dataclass
class Machine:
    boot: BootFiles
    accelerator: str
    memory_mib: int
    cpus: int
    console_log: Path
    shares: list[Share] = field(default_factory=list)
    cards: list[NetworkCard] = field(default_factory=list)
    # Open stream sockets that receive what the guest writes to /dev/vport0p1, /dev/vport0p2, ...
    ports: list[int] = field(default_factory=list)
    # Whether the guest's /dev/hvc0 is the terminal that QEMU is started from.
    terminal: bool = False
    extra_kernel_arguments: str = ""

    def command_line(self) -> list[str]:
        return [
            program("qemu-system-x86_64"),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            *ACCELERATORS[self.accelerator],
            "-m", f"{self.memory_mib}M", "-smp", str(self.cpus),
            "-kernel", str(self.boot.image), "-initrd", str(self.boot.initramfs),
            "-append", self._kernel_arguments(),
            "-serial", f"file:{self.console_log}",
            # The ports come first, because their names in the guest, /dev/vport0pN, count virtio devices.
            *self._port_options(), *self._share_options(), *self._card_options(),
        ]

    def inherited_descriptors(self) -> list[int]:
        """What QEMU must inherit to be able to use it."""
        return [*self.ports, *(card.cable for card in self.cards)]

    def _kernel_arguments(self) -> str:
        arguments = [KERNEL_ARGUMENTS, self.extra_kernel_arguments]
        if self.accelerator == "tcg":
            arguments.append(EMULATED_KERNEL_ARGUMENTS)
            frequency = counter_frequency_khz()
            if frequency is not None:
                arguments.append(f"tsc_early_khz={frequency}")
        return " ".join(filter(None, arguments))

    def _share_options(self) -> list[str]:
        options = []
        for share in self.shares:
            path = str(share.path).replace(",", ",,")  # QEMU's way to quote a comma
            read_only = ",readonly=on" if share.read_only else ""
            options += [
                "-virtfs",
                f"local,path={path},mount_tag={share.tag},security_model=none,multidevs=remap{read_only}",
            ]
        return options

    def _card_options(self) -> list[str]:
        options = []
        for number, card in enumerate(self.cards):
            options += [
                "-netdev", f"socket,id=net{number},fd={card.cable}",
                # No boot ROM: looking for a boot server would only cost time. host_mtu allows jumbo frames.
                "-device", f"virtio-net-pci,netdev=net{number},mac={card.mac},romfile=,host_mtu=9000",
            ]
        return options

    def _port_options(self) -> list[str]:
        options = ["-device", "virtio-serial-pci"]
        for number, descriptor in enumerate(self.ports, start=1):
            options += [
                "-chardev", f"socket,id=port{number},fd={descriptor}",
                "-device", f"virtserialport,nr={number},chardev=port{number}",
            ]
        if self.terminal:
            options += ["-chardev", "stdio,id=terminal,signal=off", "-device", "virtconsole,nr=0,chardev=terminal"]
        return options
