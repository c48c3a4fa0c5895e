"""The C++ in README.md and docs/*.md compiles.

Every fenced block whose language is `cpp` is compiled against the installed library:

  * a block that contains `int main` is a program: compiled as it stands, and linked;
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
from rdmaxx_test import compiler, installed_tree
from rdmaxx_test.checks import Finding, Wanted
from rdmaxx_test.pass_memory import PassMemory, key_of, key_of_tree

FOLDER = BUILD / "checks" / "snippets"

_BLOCK = re.compile(
    r"(?:<!--\s*snippet-setup:(?P<setup>.*?)-->\s*\n)?"
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

    @property
    def is_program(self) -> bool:
        return re.search(r"\bint main\b", self.code) is not None

    def source(self) -> str:
        if self.is_program:
            return self.code
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
    memory = PassMemory("snippets-passed")
    library = key_of_tree("include", "src", "softverbs/include", "cmake")
    keys = {s: key_of(compiler.version(), library, s.source()) for s in snippets}
    new = [snippet for snippet in snippets if not memory.knows(keys[snippet])]
    yield from (Finding(snippet.place) for snippet in snippets if snippet not in new)
    if not new:
        return
    options = _package_options() if any(snippet.is_program for snippet in new) else []
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        for snippet, problem in zip(new, pool.map(lambda s: _problem(s, options), new)):
            if not problem:
                memory.remember(keys[snippet])
            yield Finding(snippet.place, problem)


def find(name: str, text: str) -> list[Snippet]:
    return [
        Snippet(
            place=f"{name}:{text.count(chr(10), 0, block.start('code'))}",
            code=re.sub(rf"^{block['indent']}", "", block["code"], flags=re.MULTILINE),
            kind=block["kind"].strip(),
            setup=(block["setup"] or "").strip(),
        )
        for block in _BLOCK.finditer(text)
    ]


def _package_options() -> list[str]:
    prefix = installed_tree.install("static")
    folder = next(prefix.glob("**/pkgconfig"))
    asked = ["env", f"PKG_CONFIG_PATH={folder}", "pkg-config", "--static", "--cflags", "--libs", "rdmaxx"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()


def _problem(snippet: Snippet, package_options: list[str]) -> str:
    if snippet.kind not in ("", "declarations"):
        return f"unknown kind of block: `{snippet.kind}`"
    source = FOLDER / (re.sub(r"\W+", "_", snippet.place) + ".cpp")
    source.write_text(snippet.source())
    if snippet.is_program:
        failed = compiler.build_program(source, source.with_suffix(""), "-Wno-unused", *package_options)
    else:
        failed = compiler.check_syntax(source, "-Wno-unused")
    return failed or ""
