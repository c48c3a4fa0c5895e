"""Where things are in the repository."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"

CPP_SUFFIXES = (".cpp", ".hpp", ".h")


def files(*suffixes: str, under: str = "") -> list[Path]:
    """The repository's own files below `under`, tracked by git or about to be; never build output."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [name for name in listed.stdout.split("\0") if name]
    else:
        names = _walk()
    found = (ROOT / name for name in names if not suffixes or name.endswith(suffixes))
    return sorted(path for path in set(found) if path.is_file() and path.is_relative_to(ROOT / under))


def cache_folder() -> Path:
    """What all clones of a machine share: $RDMAXX_CACHE, else $XDG_CACHE_HOME/rdmaxx, else ~/.cache/rdmaxx."""
    base = os.environ.get("RDMAXX_CACHE")
    return Path(base or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rdmaxx").absolute()


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _walk() -> list[str]:
    names = []
    for folder, subfolders, leaves in os.walk(ROOT):
        subfolders[:] = [name for name in subfolders if name not in ("build", "__pycache__", ".git")]
        names += [str(Path(folder, leaf).relative_to(ROOT)) for leaf in leaves]
    return names
