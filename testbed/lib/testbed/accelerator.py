"""Whether guests may use hardware virtualisation (KVM) or have to be emulated (TCG).

That /dev/kvm exists and opens proves nothing: inside some virtual machines it does, and a guest then hangs. So a guest
is booted once, as far as its initramfs, and the verdict is remembered until the host reboots.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from .cache import cached_directory
from .failure import UsageError
from .machine import BootFiles, Machine
from .progress import announced, say

KVM = Path("/dev/kvm")
PROBE_SECONDS = 20  # an emulated guest needs about 5
BOOTED = "testbed: booted"  # printed by inside/init


def choose_accelerator(wish: str, boot: BootFiles) -> str:
    """kvm or tcg; `wish` may also be auto."""
    if wish == "tcg":
        return "tcg"
    if not os.access(KVM, os.R_OK | os.W_OK):
        if wish == "kvm":
            raise UsageError(f"--accel kvm: {KVM} is missing, or not readable and writable for you")
        return "tcg"
    if wish == "kvm":
        return "kvm"
    return "kvm" if _kvm_works(boot) else "tcg"


def _kvm_works(boot: BootFiles) -> bool:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    entry = cached_directory(f"kvm/{boot_id}_{boot.release}_{boot.version}", lambda into: _probe(boot, into))
    return (entry / "verdict").read_text() == "works"


def _probe(boot: BootFiles, into: Path) -> None:
    with announced(f"finding out whether a guest boots under KVM (at most {PROBE_SECONDS} s, once per host boot)"):
        works = _boots_under_kvm(boot)
    say("KVM works" if works else "KVM does not work here; guests will be emulated")
    (into / "verdict").write_text("works" if works else "does not work")


def _boots_under_kvm(boot: BootFiles) -> bool:
    with tempfile.TemporaryDirectory(prefix="rdmaxx-testbed.") as scratch:
        console_log = Path(scratch) / "console"
        machine = Machine(
            boot=boot, accelerator="kvm", memory_mib=512, cpus=2, console_log=console_log,
            extra_kernel_arguments="testbed.probe",
        )
        try:
            subprocess.run(
                machine.command_line(), timeout=PROBE_SECONDS,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return False
        return console_log.exists() and BOOTED in console_log.read_text(errors="replace")
