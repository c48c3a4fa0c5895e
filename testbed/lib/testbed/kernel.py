"""The guest's kernel: which one the distribution offers, and a cached copy of what a guest needs of it."""

import lzma
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .cache import cache_root, cached_directory, digest_of, is_intact
from .failure import Failure, UsageError
from .kernel_image import unpacked_kernel
from .packages import dependencies, download, program, run_quietly, unpack
from .progress import announced, say

# Meta packages that always depend on the newest image of a series. Not the cloud flavours: they have no rxe.
META_PACKAGES = {"6.1": "linux-image-amd64", "6.12": "linux-image-6.12-amd64"}

# Loaded at boot, each after what it depends on. A name that a kernel has built in, or lacks, is skipped unless
# REQUIRED_MODULES has it too.
MODULES = [
    # the host's file system, the shares and the command's output
    "virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay",
    # rxe needs some crc32 driver, else adding a link fails with ENOENT. The generic one is the fastest here:
    # emulated PCLMULQDQ is slower than plain integer code.
    "crc32_generic", "crc32c_generic", "libcrc32c",
    # RDMA; iw_cm is for siw, which is loaded after all of these
    "ib_uverbs", "ib_umad", "rdma_ucm", "iw_cm", "rdma_rxe",
    # networks: dummy for one guest, veth and netem for --wire, virtio_net for --pair
    "dummy", "veth", "sch_netem", "virtio_net",
]
REQUIRED_MODULES = {"9p", "overlay", "rdma_rxe", "rdma_ucm", "dummy"}


@dataclass(frozen=True)
class Kernel:
    """A kernel that the distribution offers: `release` is what uname -r prints, `version` the package's."""

    release: str
    version: str

    @property
    def key(self) -> str:
        return f"{self.release}_{self.version}"

    @property
    def image_package(self) -> str:
        return f"linux-image-{self.release}={self.version}"

    @property
    def headers_package(self) -> str:
        return f"linux-headers-{self.release}"

    @property
    def source_package(self) -> str:
        series = ".".join(self.version.split(".")[:2])
        return f"linux-source-{series}"


@dataclass(frozen=True)
class KernelFiles:
    kernel: Kernel
    directory: Path

    @property
    def image(self) -> Path:
        return self.directory / "kernel"

    @property
    def modules(self) -> list[Path]:
        """Module files in the order in which they can be loaded."""
        names = (self.directory / "load-order").read_text().split()
        return [self.directory / "modules" / name for name in names]


def prepare_kernel(series: str) -> KernelFiles:
    """The newest kernel of a series: from the cache, or downloaded into it."""
    offered = offered_kernel(series)
    if offered is None:
        return _newest_cached(series, "apt offers none (are its package lists missing? try: apt-get update)")
    try:
        directory = cached_directory(f"{_kernel_folder()}/{offered.key}", lambda into: _fetch(offered, into))
    except UsageError:
        raise
    except Failure as failure:
        say(str(failure))
        return _newest_cached(series, "downloading the newest one failed")
    return KernelFiles(offered, directory)


def offered_kernel(series: str) -> Kernel | None:
    """What apt's package lists name as the newest kernel of a series."""
    for name, version in dependencies(META_PACKAGES[series]):
        image = re.fullmatch(rf"linux-image-({re.escape(series)}\..*-amd64)", name)
        if image and version:
            return Kernel(release=image.group(1), version=version)
    return None


def newest_cached_kernel(series: str) -> Kernel | None:
    """The newest kernel of a series in the cache, for work without a network."""
    folder = cache_root() / _kernel_folder()
    entries = [entry for entry in folder.glob(f"{series}.*_*") if is_intact(entry)]
    if not entries:
        return None
    newest = max(entries, key=lambda entry: [int(number) for number in re.findall(r"\d+", entry.name)])
    release, version = newest.name.split("_", 1)
    return Kernel(release, version)


def _newest_cached(series: str, reason: str) -> KernelFiles:
    cached = newest_cached_kernel(series)
    if cached is None:
        raise Failure(f"no {series} kernel: {reason}, and none is cached below {cache_root()}")
    say(f"{reason}; using the cached {cached.version}")
    return KernelFiles(cached, cache_root() / _kernel_folder() / cached.key)


def _kernel_folder() -> str:
    # Another list of modules, or another form of the image, needs other files of the same package.
    return f"kernel-{digest_of('unpacked image', *MODULES)}"


def _fetch(kernel: Kernel, into: Path) -> None:
    with announced(f"fetching the kernel {kernel.version} (about 100 MB)"):
        with tempfile.TemporaryDirectory(prefix="unpack.", dir=into.parent) as scratch_name:
            scratch = Path(scratch_name)
            (archive,) = download([kernel.image_package], scratch)
            root = scratch / "root"
            unpack(archive, root)
            image = (root / "boot" / f"vmlinuz-{kernel.release}").read_bytes()
            (into / "kernel").write_bytes(unpacked_kernel(image))
            _take_modules(kernel, root, into)


def _take_modules(kernel: Kernel, root: Path, into: Path) -> None:
    run_quietly([program("depmod"), "-b", str(root), kernel.release], "finding out the modules' dependencies")
    tree = root / "lib" / "modules" / kernel.release
    (into / "modules").mkdir()
    load_order = []
    for path in _load_order(tree):
        # Unpacked here once, not at each boot: the guest's insmod needs no decompressor, and emulation is slow.
        content = (tree / path).read_bytes()
        if path.endswith(".xz"):
            content = lzma.decompress(content)
        name = Path(path.removesuffix(".xz")).name
        (into / "modules" / name).write_bytes(content)
        load_order.append(name)
    (into / "load-order").write_text("\n".join(load_order) + "\n")


def _load_order(tree: Path) -> list[str]:
    """The wanted modules and all they depend on, dependencies first."""
    depends_on, path_of = {}, {}
    for line in (tree / "modules.dep").read_text().splitlines():
        path, _, needed = line.partition(":")
        depends_on[path] = needed.split()
        path_of[Path(path).name.split(".")[0].replace("-", "_")] = path
    ordered: list[str] = []
    for name in MODULES:
        path = path_of.get(name)
        if path is None:
            if name in REQUIRED_MODULES:
                raise Failure(f"this kernel has no module {name}")
            continue
        # depmod lists what a module needs with the nearest first; loading wants the farthest first.
        for needed in [*reversed(depends_on[path]), path]:
            if needed not in ordered:
                ordered.append(needed)
    return ordered
