"""Debian packages, looked up and unpacked without installing them: no root needed, the host stays as it is."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from .failure import Failure, UsageError

# The package that provides each program which the testbed calls.
PROVIDERS = {
    "apt-cache": "apt",
    "apt-get": "apt",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
    "make": "make",
    "qemu-system-x86_64": "qemu-system-x86",
    "setpriv": "util-linux",
    "strip": "binutils",
    "tar": "tar",
    "xz": "xz-utils",
    "zstd": "zstd",
}


def program(name: str) -> str:
    """The full path of a program; names the package to install if it is missing."""
    # A user's PATH often lacks the administrators' directories, where kmod lives.
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise UsageError(
            f"'{name}' is not installed; it is in the package {PROVIDERS.get(name, name)}. "
            "scripts/install-dependencies installs everything that is needed."
        )
    return path


def run_quietly(command: list[str], what: str, **options) -> subprocess.CompletedProcess:
    """Runs a program whose output matters only if it fails."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", **options,
    )
    if done.returncode != 0:
        output = "\n".join(f"    {line}" for line in done.stdout.splitlines()[-30:])
        raise Failure(f"{what} failed (exit {done.returncode}): {' '.join(command)}\n{output}")
    return done


def dependencies(package: str) -> list[tuple[str, str | None]]:
    """What a package depends on, as (name, exact version or None); empty if apt does not know the package."""
    shown = subprocess.run(
        [program("apt-cache"), "show", "--no-all-versions", package],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    field = re.search(r"^Depends: (.*)$", shown.stdout, re.MULTILINE)
    if shown.returncode != 0 or field is None:
        return []
    found = []
    for alternative in re.split(r"[,|]", field.group(1)):
        parsed = re.match(r"\s*([a-z0-9.+-]+)(?::\w+)?\s*(?:\(= ([^)]+)\))?", alternative)
        if parsed:
            found.append((parsed.group(1), parsed.group(2)))
    return found


def download(packages: list[str], directory: Path) -> list[Path]:
    """Downloads `name` or `name=version` packages; apt checks their signatures."""
    # The sandbox user could not write into a private directory; the setting silences apt's warning about that.
    run_quietly(
        [program("apt-get"), "-o", "APT::Sandbox::User=root", "download", *packages],
        f"downloading {', '.join(packages)}", cwd=directory,
    )
    return sorted(directory.glob("*.deb"))


def unpack(archive: Path, directory: Path) -> None:
    run_quietly([program("dpkg-deb"), "-x", str(archive), str(directory)], f"unpacking {archive.name}")
