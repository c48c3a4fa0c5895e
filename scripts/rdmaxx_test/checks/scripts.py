"""Shell and Python scripts parse, and the tests of the Python scripts pass."""

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from rdmaxx_project import repository
from rdmaxx_test.checks import Finding, Wanted


def run(wanted: Wanted) -> Iterable[Finding]:
    bash, python = [], []
    for path in repository.files():
        interpreter = _interpreter(path)
        if "bash" in interpreter or interpreter.endswith("/sh"):
            bash.append(path)
        elif path.suffix == ".py" or "python" in interpreter:
            python.append(path)
    yield Finding("bash", "\n".join(filter(None, map(_bash_problem, bash))))
    yield Finding("python", "\n".join(filter(None, map(_python_problem, python))))
    yield Finding("tests", _failed_tests())


def _interpreter(path: Path) -> str:
    with path.open("rb") as file:
        first = file.readline(200)
    return first[2:].decode(errors="replace").strip() if first.startswith(b"#!") else ""


def _bash_problem(path: Path) -> str:
    return subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False).stderr.strip()


def _python_problem(path: Path) -> str:
    try:
        ast.parse(path.read_text(), path)
    except SyntaxError as error:
        return f"{repository.relative(path)}:{error.lineno}: {error.msg}"
    return ""


def _failed_tests() -> str:
    tests = subprocess.run(
        [sys.executable, "-m", "unittest", "discover", "-s", "scripts/tests", "-t", "scripts"],
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return tests.stderr if tests.returncode != 0 else ""
