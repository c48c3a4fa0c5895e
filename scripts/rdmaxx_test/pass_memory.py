"""Remembers which expensive checks passed, so that what has not changed is not checked again.

A key is the hash of everything that the verdict depends on. Verdicts are small files in build/checks.
"""

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from rdmaxx_project.repository import BUILD, files


class PassMemory:
    def __init__(self, name: str):
        self._folder = BUILD / "checks" / name

    def knows(self, key: str) -> bool:
        return (self._folder / key).exists()

    def remember(self, key: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / key).touch()


def key_of(*parts: str | bytes | Path) -> str:
    """Paths count by content."""
    whole = hashlib.sha256()
    for part in parts:
        digest = _content(part) if isinstance(part, Path) else part
        whole.update(digest.encode() if isinstance(digest, str) else digest)
        whole.update(b"\0")
    return whole.hexdigest()[:40]


@functools.cache
def key_of_tree(*folders: str) -> str:
    """All of the repository's files below these folders."""
    paths: Iterable[Path] = (path for folder in folders for path in files(under=folder))
    return key_of(*(part for path in paths for part in (str(path), path)))


@functools.cache
def _content(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "missing"
