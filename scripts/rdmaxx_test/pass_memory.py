"""Remembers which expensive checks passed, so that what has not changed is not checked again.

A key is the hash of everything that the verdict depends on, and names no folder of one clone: all clones of a
machine share what they know, as they share ccache's objects. Verdicts are empty files in the project's cache.
"""

import contextlib
import functools
import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from rdmaxx_project.repository import ROOT, cache_folder, files, relative

KEPT_FOR = 30 * 24 * 3600  # seconds since somebody asked last
_PACKAGES = Path("/var/lib/dpkg/status")


class PassMemory:
    def __init__(self, name: str):
        self._folder = cache_folder() / "passed" / name

    def knows(self, key: str) -> bool:
        try:
            os.utime(self._folder / key)
        except OSError:
            return False
        return True

    def remember(self, key: str) -> None:
        with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / key).touch()

    def forget_old(self) -> None:
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                if path.stat().st_mtime < time.time() - KEPT_FOR:
                    path.unlink(missing_ok=True)


def key_of(*parts: str | bytes | Path) -> str:
    """Paths count by content, and words without the folder of this clone."""
    whole = hashlib.sha256()
    for part in parts:
        digest = _content(part) if isinstance(part, Path) else part
        whole.update(digest.replace(str(ROOT), "").encode() if isinstance(digest, str) else digest)
        whole.update(b"\0")
    return whole.hexdigest()[:40]


@functools.cache
def key_of_tree(*folders: str) -> str:
    """All of the repository's files below these folders."""
    paths: Iterable[Path] = (path for folder in folders for path in files(under=folder))
    return key_of(*(part for path in paths for part in (relative(path), path)))


def key_of_machine() -> str:
    """The versions of the libraries and compilers that the distribution has installed here."""
    return key_of(_PACKAGES, Path("/etc/os-release"))


@functools.cache
def _content(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "missing"
