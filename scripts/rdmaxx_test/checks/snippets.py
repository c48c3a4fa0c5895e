"""The C++ in README.md and docs/*.md compiles.

Every fenced block whose language is `cpp` is compiled against the installed library:

  * a block that contains `int main` is a program: compiled as it stands, linked, and run on the software
    device, as the comment `<!-- snippet-run: … -->` before it says (snippet_runs.py);
  * a block opened with ```cpp declarations stands at namespace scope;
  * any other block is the body of a function that returns `result<void>` (so RDMAXX_TRY works), or of a
    coroutine that returns `task<result<void>>` if it contains co_await, co_return or RDMAXX_CO_TRY.

The last two kinds see <rdmaxx/rdmaxx.hpp>, `using namespace rdmaxx;` and `using namespace std::literals;`.
Includes may stand anywhere in a block. What a reader knows from the text around it, such as a `qp`, is
declared in an HTML comment directly before the block; it is put at namespace scope before it:

    <!-- snippet-setup: extern queue_pair qp; extern std::vector<std::byte> buffer; -->

A block may be indented, as in a list. There is no way to leave a block out: write `text` as its language
if it is not C++.
"""

import re
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rdmaxx_project import repository
from rdmaxx_project.repository import BUILD
from rdmaxx_test import compiler, installed_tree, snippet_runs
from rdmaxx_test.checks import Finding, Wanted
from rdmaxx_test.pass_memory import PassMemory, key_of, key_of_machine, key_of_tree

FOLDER = BUILD / "checks" / "snippets"

_BLOCK = re.compile(
    r"(?:<!--\s*snippet-setup:(?P<setup>.*?)-->\s*\n)?"
    r"(?:^[ \t]*<!--\s*snippet-run:(?P<run>[^\n]*?)-->[ \t]*\n)?"
    r"^(?P<indent>[ \t]*)```cpp(?P<kind>[^\n]*)\n(?P<code>.*?)^(?P=indent)```\s*$",
    re.MULTILINE | re.DOTALL,
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*\n?", re.MULTILINE)
_COROUTINE = re.compile(r"\b(co_await|co_return|co_yield|RDMAXX_CO_TRY)\b")


@dataclass(frozen=True)
class Snippet:
    place: str  # file:line
    code: str
    kind: str = ""
    setup: str = ""
    run: str = ""

    @property
    def is_program(self) -> bool:
        return re.search(r"\bint main\b", self.code) is not None

    def source(self) -> str:
        if self.is_program:
            return snippet_runs.with_own_port(self.code)
        includes = "".join(_INCLUDE.findall(self.setup + "\n" + self.code))
        return (
            f"#include <rdmaxx/rdmaxx.hpp>\n{includes}"
            "using namespace rdmaxx;\nusing namespace std::literals;\n"
            f"{_INCLUDE.sub('', self.setup)}\n{self._placed()}"
        )

    def _placed(self) -> str:
        code = _INCLUDE.sub("", self.code)
        if self.kind == "declarations":
            return code
        coroutine = _COROUTINE.search(code) is not None
        result, end = ("task<result<void>>", "co_return") if coroutine else ("result<void>", "return")
        return f"{result} snippet();\n{result} snippet() {{\n{code}\n{end} {{}};\n}}\n"


def run(wanted: Wanted) -> Iterable[Finding]:
    pages = [repository.ROOT / "README.md", *repository.files(".md", under="docs")]
    snippets = [
        snippet
        for page in pages
        if page.exists()
        for snippet in find(repository.relative(page), page.read_text())
        if wanted(snippet.place)
    ]
    memory = PassMemory("snippets")
    library = key_of_tree("include", "src", "softverbs", "cmake")
    keys = {s: key_of(key_of_machine(), compiler.version(), library, s.code, s.kind, s.setup, s.run) for s in snippets}
    new = [snippet for snippet in snippets if not memory.knows(keys[snippet])]
    if any(snippet.is_program for snippet in new):  # they run against each other
        new = [snippet for snippet in snippets if snippet in new or snippet.is_program]
    yield from (Finding(snippet.place) for snippet in snippets if snippet not in new)
    if not new:
        return
    prefix = installed_tree.install("static") if any(snippet.is_program for snippet in new) else None
    options = _package_options(prefix) if prefix else []
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        problems = dict(zip(new, pool.map(lambda s: _problem(s, options), new)))
    if prefix:
        problems |= _problems_of_runs([s for s in new if s.is_program and not problems[s]], prefix)
    for snippet, problem in problems.items():
        if not problem:
            memory.remember(keys[snippet])
        yield Finding(snippet.place, problem)


def _problems_of_runs(programs: list[Snippet], prefix: Path) -> dict[Snippet, str]:
    problems = {program: "" for program in programs}
    roles = {program: snippet_runs.read_role(program.run) for program in programs}
    for program, role in roles.items():
        if role is None:
            problems[program] = f"`{program.run}` does not say how it runs: see snippet_runs.py"
    library = next(prefix.rglob("libsoftverbs.so"))
    by_place = {p.place: (p, (_source_of(p).with_suffix(""), role)) for p, role in roles.items() if role}
    runnable = {place: entry for place, (_, entry) in by_place.items()}
    for place, problem in snippet_runs.run(runnable, snippet_runs.environment(library)):
        problems[by_place[place][0]] = problem
    return problems


def find(name: str, text: str) -> list[Snippet]:
    return [
        Snippet(
            place=f"{name}:{text.count(chr(10), 0, block.start('code'))}",
            code=re.sub(rf"^{block['indent']}", "", block["code"], flags=re.MULTILINE),
            kind=block["kind"].strip(),
            setup=(block["setup"] or "").strip(),
            run=(block["run"] or "").strip(),
        )
        for block in _BLOCK.finditer(text)
    ]


def _package_options(prefix: Path) -> list[str]:
    folder = next(prefix.glob("**/pkgconfig"))
    asked = ["env", f"PKG_CONFIG_PATH={folder}", "pkg-config", "--static", "--cflags", "--libs", "rdmaxx"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()


def _source_of(snippet: Snippet) -> Path:
    return FOLDER / (re.sub(r"\W+", "_", snippet.place) + ".cpp")


def _problem(snippet: Snippet, package_options: list[str]) -> str:
    if snippet.kind not in ("", "declarations"):
        return f"unknown kind of block: `{snippet.kind}`"
    source = _source_of(snippet)
    source.write_text(snippet.source())
    if snippet.is_program:
        failed = compiler.build_program(source, source.with_suffix(""), "-Wno-unused", *package_options)
    else:
        failed = compiler.check_syntax(source, "-Wno-unused")
    return failed or ""
