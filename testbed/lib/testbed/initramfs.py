"""The initramfs: busybox, the kernel's modules, and the script that brings up the host's file system."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .cache import cached_directory, digest_of
from .failure import Failure
from .kernel import KernelFiles
from .packages import program

INIT_SCRIPT = Path(__file__).resolve().parents[2] / "inside" / "init"

# What the init script calls; each becomes a link to busybox.
APPLETS = ["sh", "cat", "insmod", "ln", "mkdir", "mkfifo", "mount", "poweroff", "switch_root"]

# Without this, the module makes an interface of its own, dummy0, that nobody asked for.
MODULE_PARAMETERS = {"dummy.ko": "numdummies=0"}


def prepare_initramfs(files: KernelFiles, siw: Path) -> Path:
    """The initramfs for a kernel: from the cache, or packed into it. Its key covers all that it contains."""
    busybox = Path(program("busybox"))
    contents = digest_of(
        files.kernel.key, _load_order(files, siw), siw.read_bytes(), busybox.read_bytes(), INIT_SCRIPT.read_bytes(),
        *APPLETS,
    )
    key = f"initramfs/{files.kernel.key}_{contents}"
    return cached_directory(key, lambda into: _pack(files, siw, busybox, into)) / "initramfs.cpio"


def _load_order(files: KernelFiles, siw: Path) -> str:
    """One module per line, with its parameters."""
    names = [module.name for module in files.modules] + [siw.name]
    return "".join(f"{name} {MODULE_PARAMETERS.get(name, '')}\n" for name in names)


def _pack(files: KernelFiles, siw: Path, busybox: Path, into: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="initramfs.", dir=into.parent) as scratch:
        root = Path(scratch)
        for directory in ("bin", "dev", "proc", "sys", "modules", "host", "memory", "newroot"):
            (root / directory).mkdir()
        shutil.copy(busybox, root / "bin" / "busybox")
        for applet in APPLETS:
            (root / "bin" / applet).symlink_to("busybox")
        shutil.copy(INIT_SCRIPT, root / "init")
        (root / "init").chmod(0o755)
        for module in [*files.modules, siw]:
            shutil.copy(module, root / "modules")
        (root / "modules" / "load-order").write_text(_load_order(files, siw))
        _archive(root, into / "initramfs.cpio")


def _archive(root: Path, archive: Path) -> None:
    # Not compressed: reading a few more megabytes is quicker than decompressing them under emulation.
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    with open(archive, "wb") as output:
        packed = subprocess.run(
            [program("cpio"), "--create", "--format=newc", "--owner=0:0", "--null", "--quiet"],
            cwd=root, input=b"\0".join(map(os.fsencode, names)) + b"\0", stdout=output, stderr=subprocess.PIPE,
        )
    if packed.returncode != 0:
        raise Failure(f"packing the initramfs failed: {packed.stderr.decode(errors='replace')}")
