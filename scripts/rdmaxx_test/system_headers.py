"""The system's headers without some of them: how a machine looks that lacks a package."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path


def without(folder: Path, hidden: list[str]) -> list[str]:
    """Options for g++ with which the hidden headers, named as in #include, are not found; fills `folder` with links."""
    shutil.rmtree(folder, ignore_errors=True)
    options = ["-nostdinc", "-nostdinc++"]
    for number, found in enumerate(_search_path()):
        here = [name for name in hidden if (found / name).exists()]
        place = _copy_of_links(found, folder / str(number), here) if here else found
        options += ["-isystem", str(place)]
    return options


def _copy_of_links(original: Path, copy: Path, hidden: list[str]) -> Path:
    copy.mkdir(parents=True)
    for entry in os.scandir(original):
        below = [name.split("/", 1)[1] for name in hidden if name.startswith(f"{entry.name}/")]
        if below:
            _copy_of_links(original / entry.name, copy / entry.name, below)
        elif entry.name not in hidden:
            (copy / entry.name).symlink_to(entry.path)
    return copy


@functools.cache
def _search_path() -> tuple[Path, ...]:
    told = subprocess.run(
        ["g++", "-E", "-v", "-x", "c++", "/dev/null"], capture_output=True, text=True, check=True
    ).stderr
    listed = re.search(r"#include <\.\.\.> search starts here:\n(.*?)End of search list", told, re.DOTALL)
    return tuple(Path(line.strip()).resolve() for line in listed[1].splitlines()) if listed else ()
