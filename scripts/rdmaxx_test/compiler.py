"""Compiles single files the way a user of the library would."""

import functools
import subprocess
from pathlib import Path

from rdmaxx_project.repository import ROOT

COMMAND = ("g++", "-std=c++23", "-Wall", "-Wextra", "-Werror", "-fdiagnostics-color=never")


def check_syntax(source: Path, *options: str) -> str | None:
    """With the headers of the source tree. Returns the compiler's messages if it fails."""
    return _messages([*COMMAND, "-fsyntax-only", f"-I{ROOT}/include", f"-I{ROOT}/softverbs/include", *options, str(source)])


def build_program(source: Path, program: Path, *options: str) -> str | None:
    """With the headers and libraries that the options name. Returns the messages if it fails."""
    return _messages([*COMMAND, "-o", str(program), str(source), *options])


def _messages(command: list[str]) -> str | None:
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    return compiled.stderr if compiled.returncode != 0 else None


@functools.cache
def version() -> str:
    return subprocess.run(["g++", "--version"], capture_output=True, text=True, check=False).stdout
