"""clang-tidy has nothing to say (.clang-tidy tells what it looks for).

It takes seconds for each source file, so verdicts are kept: a file is looked at again when it, a header it
includes, its compiler command, or the configuration has changed. Which headers those are is known from
the last build of the preset `clang`.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rdmaxx_project import presets, progress, repository
from rdmaxx_project.repository import BUILD, ROOT
from rdmaxx_test.checks import Finding, Wanted
from rdmaxx_test.pass_memory import key_of

CLANG_TIDY = "clang-tidy-19"
PRESET = "clang"
VERDICTS = BUILD / "checks" / "tidy"
AT_ONCE = 2


@dataclass(frozen=True)
class Unit:
    source: Path
    command: str

    @property
    def name(self) -> str:
        return repository.relative(self.source)

    @property
    def is_test(self) -> bool:
        return self.name.startswith("tests/")

    @property
    def object_file(self) -> str:
        return re.search(r" -o (\S+)", self.command)[1]


def run(wanted: Wanted) -> Iterable[Finding]:
    """What users get: the libraries, the tool, the examples, the benchmarks."""
    yield from _run(lambda unit: wanted(unit.name) and not unit.is_test)


def run_on_tests(wanted: Wanted) -> Iterable[Finding]:
    """Most of the files, and of the time."""
    yield from _run(lambda unit: wanted(unit.name) and unit.is_test)


def _run(chosen: Callable[[Unit], bool]) -> Iterable[Finding]:
    try:
        presets.build(PRESET, keep_going=True)
    except presets.BuildFailure as failure:
        yield Finding("build", failure.output)
    version = subprocess.run([CLANG_TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    configuration = key_of(version, *_configurations())
    headers = _included_headers()
    units = [unit for unit in _units() if chosen(unit)]
    messages: dict[str, None] = {}  # in order, each once: a header's are found in every file that includes it
    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = pool.map(lambda unit: _verdict(unit, configuration, headers), units)
        for number, verdict in enumerate(verdicts, 1):
            progress.moving(f"tidy: {number}/{len(units)}")
            messages.update(dict.fromkeys(split(verdict)))
    if units:
        yield Finding("sources", "\n".join(messages))


def split(output: str) -> list[str]:
    """clang-tidy's messages, each with the lines that belong to it."""
    begins = re.compile(r"^(?=\S[^\n]*:\d+:\d+: (?:warning|error):|error:)", re.MULTILINE)
    return [message.rstrip() for message in begins.split(output) if message.strip()]


def _units() -> list[Unit]:
    database = json.loads((presets.directory(PRESET) / "compile_commands.json").read_text())
    units = [Unit(Path(entry["file"]), entry["command"]) for entry in database]
    return [unit for unit in units if not unit.source.is_relative_to(BUILD)]


def _configurations() -> list[Path]:
    return [path for path in repository.files(".clang-tidy") if path.name == ".clang-tidy"]


def _included_headers() -> dict[str, list[Path]]:
    """For each object file, what Ninja knows its source to include."""
    folder = presets.directory(PRESET)
    listing = subprocess.run(
        ["ninja", "-C", folder, "-t", "deps"], capture_output=True, text=True, check=True
    ).stdout
    headers: dict[str, list[Path]] = {}
    current: list[Path] = []
    for line in listing.splitlines():
        if line.startswith("    "):
            current.append(folder / line.strip())
        elif begin := re.match(r"(\S+): #deps .*VALID", line):
            current = headers.setdefault(begin[1], [])
    return headers


def _verdict(unit: Unit, configuration: str, headers: dict[str, list[Path]]) -> str:
    """What clang-tidy says about it, now or when it was last asked."""
    if unit.object_file not in headers:
        return _ask(unit)
    key = key_of(configuration, unit.command, unit.source, *headers[unit.object_file])
    kept = VERDICTS / key
    if kept.exists():
        return kept.read_text()
    verdict = _ask(unit)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(verdict)
    return verdict


def _ask(unit: Unit) -> str:
    asked = subprocess.run(
        [CLANG_TIDY, "-p", presets.directory(PRESET), "--quiet", unit.source],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode == 0:
        return ""
    return asked.stdout.replace(f"{ROOT}/", "") or f"error: {unit.name}: {asked.stderr}"
