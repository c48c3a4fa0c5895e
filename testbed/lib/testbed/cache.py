"""A cache of directories that are either complete and intact, or not there at all.

An entry is built in a temporary directory beside its final place and renamed when it is complete, so an interrupted
build leaves nothing behind that looks like an entry. A lock per entry makes concurrent builders wait for each other.
A manifest of checksums detects what renaming cannot: a disk that filled up, a crash before the data was written, a
file edited by hand. Such an entry is thrown away and built again.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from .progress import say

MANIFEST = "manifest.json"


def cache_root() -> Path:
    """$RDMAXX_CACHE, else $XDG_CACHE_HOME/rdmaxx, else ~/.cache/rdmaxx; the testbed's part of it."""
    base = os.environ.get("RDMAXX_CACHE")
    if not base:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rdmaxx"
    return Path(base).absolute() / "testbed"


def digest_of(*parts: bytes | str) -> str:
    """A short name for content: entries that depend on it get a new key when it changes."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little"))  # so that ("ab", "c") differs from ("a", "bc")
        sha.update(data)
    return sha.hexdigest()[:12]


def cached_directory(key: str, build: Callable[[Path], None]) -> Path:
    """The entry's directory; `build(directory)` fills it if there is none yet."""
    entry = cache_root() / key
    entry.parent.mkdir(parents=True, exist_ok=True)
    with _locked(entry):
        if entry.is_dir():
            if is_intact(entry):
                return entry
            say(f"the cached {key} is damaged; building it again")
            shutil.rmtree(entry)
        for leftover in entry.parent.glob(f".{entry.name}.*/"):
            shutil.rmtree(leftover, ignore_errors=True)  # of a builder that was killed: we hold the lock
        with tempfile.TemporaryDirectory(prefix=f".{entry.name}.", dir=entry.parent) as scratch:
            content = Path(scratch) / "content"
            content.mkdir()
            build(content)
            _write_manifest(content)
            os.rename(content, entry)
    return entry


def is_intact(entry: Path) -> bool:
    """Whether the directory holds exactly the files, byte for byte, that were put into it."""
    try:
        expected = json.loads((entry / MANIFEST).read_text())
        return expected == _checksums(entry)
    except (OSError, ValueError):
        return False


@contextmanager
def _locked(entry: Path):
    # The kernel drops the lock when its holder dies, so there are no stale locks.
    with open(entry.parent / f".{entry.name}.lock", "w") as lock_file:
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another testbed that is preparing {entry.name}")
            fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield


def _checksums(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }


def _write_manifest(directory: Path) -> None:
    (directory / MANIFEST).write_text(json.dumps(_checksums(directory), indent=1))
