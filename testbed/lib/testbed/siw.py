"""siw, the software iWARP device: Debian's kernels leave it out, so it is built from their own source.

The headers and the source are unpacked into a scratch directory and thrown away afterwards; nothing is installed.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from .cache import cached_directory
from .failure import Failure
from .kernel import Kernel
from .packages import dependencies, download, program, run_quietly, unpack
from .progress import announced


def prepare_siw(kernel: Kernel) -> Path:
    """The module file for this kernel: from the cache, or built into it."""
    return cached_directory(f"siw/{kernel.key}", lambda into: _build(kernel, into)) / "siw.ko"


def _build(kernel: Kernel, into: Path) -> None:
    with announced(f"building siw for {kernel.version} (downloads about 150 MB)"):
        with tempfile.TemporaryDirectory(prefix="build.", dir=into.parent) as scratch_name:
            scratch = Path(scratch_name)
            headers = _unpack_headers(kernel, scratch)
            source = _unpack_siw_source(kernel, scratch)
            run_quietly(
                [program("make"), "-C", str(headers), f"M={source}", f"-j{os.cpu_count()}",
                 "CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"],
                "building siw",
            )
            run_quietly([program("strip"), "-g", str(source / "siw.ko")], "stripping siw")
            (source / "siw.ko").rename(into / "siw.ko")


def _unpack_headers(kernel: Kernel, scratch: Path) -> Path:
    needed = [f"{kernel.headers_package}={kernel.version}"]
    for name, version in dependencies(kernel.headers_package):
        if name.startswith(("linux-headers-", "linux-kbuild-")):
            needed.append(f"{name}={version}" if version else name)
    archives = scratch / "headers-archives"
    archives.mkdir()
    root = scratch / "headers"
    for archive in download(needed, archives):
        unpack(archive, root)
    directory = root / "usr" / "src" / f"linux-headers-{kernel.release}"
    # The package includes its common part by an absolute path, which is right only when it is installed.
    makefile = directory / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{root}/usr/src/"))
    return directory


def _unpack_siw_source(kernel: Kernel, scratch: Path) -> Path:
    archives = scratch / "source-archive"
    archives.mkdir()
    (archive,) = download([f"{kernel.source_package}={kernel.version}"], archives)
    directory = scratch / "siw"
    directory.mkdir()
    # A pipeline, because the whole source unpacked would take 1.4 GB for the sake of 300 kB.
    outer = subprocess.Popen([program("dpkg-deb"), "--fsys-tarfile", archive], stdout=subprocess.PIPE)
    inner = subprocess.Popen(
        [program("tar"), "-xO", f"./usr/src/{kernel.source_package}.tar.xz"],
        stdin=outer.stdout, stdout=subprocess.PIPE,
    )
    run = subprocess.run(
        [program("tar"), "-xJ", "-C", directory, "--strip-components=5", "--wildcards",
         "*/drivers/infiniband/sw/siw/*"],
        stdin=inner.stdout, capture_output=True, text=True,
    )
    for stage in (outer, inner):
        stage.stdout.close()  # lets a stage that still writes end
        stage.wait()
    if run.returncode != 0 or not (directory / "Makefile").exists():
        raise Failure(f"unpacking siw from {archive.name} failed: {run.stderr.strip()}")
    return directory
