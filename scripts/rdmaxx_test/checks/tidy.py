"""clang-tidy has nothing to say (.clang-tidy tells what it looks for).

Most of its time goes into the system's headers, which a source file brings again and again. So it looks at several
files at once: sources of one folder that are compiled with the same options are included into one file. Where they
do not compile together, because two unnamed namespaces have a name in common, each is looked at alone.

Files that passed are remembered: a group is looked at again when one of its files, a header that they include, the
options or the configuration has changed. Which headers those are is known from the build of the preset `clang`.
"""

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rdmaxx_project import presets, progress, repository
from rdmaxx_project.repository import BUILD, ROOT
from rdmaxx_test.checks import Finding, Wanted
from rdmaxx_test.pass_memory import PassMemory, key_of, key_of_machine

CLANG_TIDY = "clang-tidy-19"
PRESET = "clang"
FOLDER = BUILD / "checks" / "tidy"
AT_ONCE = 2
GROUP_SIZE = 12
# The analyzer follows paths in the main file and in what is included into a file of this name alone.
GROUP_NAME = "UnifiedSource"
# What a file that includes source files is told about itself.
NOT_FOR_GROUPS = "-bugprone-suspicious-include"
# As .clang-tidy has it, and the sources, which are headers there.
_SHOWN = rf"^{re.escape(str(ROOT))}/(.*/)?((include|src|tools|examples|tests|benchmarks)/|softverbs/.*[.]cpp$)"


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

    @property
    def options(self) -> str:
        """The compiler's, without what differs between the files of one target."""
        return self.command.split(" -o ")[0]


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
    _copy_configurations()
    configuration = key_of(key_of_machine(), _version(), GROUP_NAME, *_configurations())
    headers = _included_headers()
    memory = PassMemory("tidy")
    memory.forget_old()
    groups = list(grouped([unit for unit in _units() if chosen(unit)]))
    messages: dict[str, None] = {}  # in order, each once: a header's are found in every file that includes it
    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = pool.map(lambda group: _verdict(group, configuration, headers, memory), groups)
        for number, verdict in enumerate(verdicts, 1):
            progress.moving(f"tidy: {number}/{len(groups)}")
            messages.update(dict.fromkeys(split(verdict)))
    if groups:
        yield Finding("sources", "\n".join(messages))
        yield Finding("mistakes are found in a group", _overlooked())


def split(output: str) -> list[str]:
    """clang-tidy's messages, each with the lines that belong to it."""
    begins = re.compile(r"^(?=\S[^\n]*:\d+:\d+: (?:warning|error):|error:)", re.MULTILINE)
    return [message.rstrip() for message in begins.split(output) if message.strip()]


def grouped(units: list[Unit]) -> Iterable[list[Unit]]:
    """Groups of files of one folder with the same options; examples and benchmarks, which all have a `main`, alone."""
    place = lambda unit: (str(unit.source.parent), unit.options)
    for _, several in itertools.groupby(sorted(units, key=lambda unit: (place(unit), unit.name)), key=place):
        members = list(several)
        size = 1 if _defines_main(members[0]) else GROUP_SIZE
        yield from (members[first : first + size] for first in range(0, len(members), size))


def _defines_main(unit: Unit) -> bool:
    return unit.name.startswith(("examples/", "benchmarks/"))


# A pointer that is null on one path, and a name that is not ours.
_MISTAKES = """\
namespace rdmaxx { int first_of(int count); int BadName(); }
int rdmaxx::first_of(int count) {
  const int* numbers = nullptr;
  return count > 3 ? *numbers : 0;
}
int rdmaxx::BadName() { return 0; }
"""
_COMPLAINTS = ("clang-analyzer-core.NullDereference", "readability-identifier-naming")


def _overlooked() -> str:
    """What clang-tidy must find in a file that is looked at with another one."""
    sources = [FOLDER / "src" / name for name in ("innocent.cpp", "mistakes.cpp")]
    sources[0].parent.mkdir(parents=True, exist_ok=True)
    sources[0].write_text("namespace rdmaxx {}\n")
    sources[1].write_text(_MISTAKES)
    verdict = _ask_together([Unit(source, "clang++-19 -std=c++23 -o it") for source in sources])
    return "\n".join(f"{each} was overlooked: {verdict}" for each in _COMPLAINTS if each not in verdict)


def _units() -> list[Unit]:
    database = json.loads((presets.directory(PRESET) / "compile_commands.json").read_text())
    units = [Unit(Path(entry["file"]), entry["command"]) for entry in database]
    return [unit for unit in units if not unit.source.is_relative_to(BUILD)]


def _version() -> str:
    return subprocess.run([CLANG_TIDY, "--version"], capture_output=True, text=True, check=True).stdout


def _configurations() -> list[Path]:
    return [path for path in repository.files(".clang-tidy") if path.name == ".clang-tidy"]


def _copy_configurations() -> None:
    """A group's file finds its configuration as the sources do: in the folders above it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path in _configurations():
        copy = FOLDER / repository.relative(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


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
            current.append(Path(os.path.normpath(folder / line.strip())))
        elif begin := re.match(r"(\S+): #deps .*VALID", line):
            current = headers.setdefault(begin[1], [])
    return headers


def _verdict(group: list[Unit], configuration: str, headers: dict[str, list[Path]], memory: PassMemory) -> str:
    """What clang-tidy says about the group; nothing if it passed before."""
    known = all(unit.object_file in headers for unit in group)
    included = sorted({key_of(header) for unit in group for header in headers.get(unit.object_file, [])})
    sources = [part for unit in group for part in (unit.command, unit.source)]
    key = key_of(configuration, *sources, *included)
    if known and memory.knows(key):
        return ""
    verdict = _ask_about_group(group) if len(group) > 1 else _ask_alone(group[0])
    if known and not verdict:
        memory.remember(key)
    return verdict


def _ask_about_group(group: list[Unit]) -> str:
    return "".join(_ask_together(part) if len(part) > 1 else _ask_alone(part[0]) for part in _compatible(group))


def _compatible(group: list[Unit]) -> Iterable[list[Unit]]:
    """The group, or such parts of it as compile together."""
    if len(group) == 1 or _ask([*_compiler(group), "-fsyntax-only", _together(group)], presets.directory(PRESET)) == "":
        yield group
        return
    half = len(group) // 2
    yield from _compatible(group[:half])
    yield from _compatible(group[half:])


def _ask_together(group: list[Unit]) -> str:
    options = [f"--checks={NOT_FOR_GROUPS}", f"--header-filter={_SHOWN}"]
    return _ask(
        [CLANG_TIDY, "--quiet", *options, _together(group), "--", *_compiler(group)[1:]], presets.directory(PRESET)
    )


def _together(group: list[Unit]) -> Path:
    folder = FOLDER / group[0].source.parent.relative_to(ROOT)
    file = folder / f"{GROUP_NAME}-{group[0].source.stem}-and-{len(group) - 1}-more.cpp"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f'#include "{unit.source}"\n' for unit in group))
    return file


def _compiler(group: list[Unit]) -> list[str]:
    """With its options, without ccache and its settings, which may stand before it."""
    words = shlex.split(group[0].options)
    return words[next(number for number, word in enumerate(words) if "clang++" in word) :]


def _ask_alone(unit: Unit) -> str:
    return _ask([CLANG_TIDY, "-p", presets.directory(PRESET), "--quiet", unit.source], ROOT)


def _ask(command: list[str | Path], folder: Path) -> str:
    asked = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if asked.returncode == 0:
        return ""
    return asked.stdout.replace(f"{ROOT}/", "") or f"error: {command[0]}: {asked.stderr}"
