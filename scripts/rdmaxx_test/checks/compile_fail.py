"""What the types forbid must not compile.

Each tests/compile_fail/*.cpp says in one or more lines `// expect: <regex>` what the compiler's message
must contain. As it stands it must fail to compile, with all of these; with -DRDMAXX_COMPILE_OK, which
turns the misuse into its correct neighbour, it must compile. So a test cannot fail for a wrong reason.
"""

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rdmaxx_project import repository
from rdmaxx_test import compiler
from rdmaxx_test.checks import Finding, Wanted
from rdmaxx_test.pass_memory import PassMemory, key_of, key_of_machine, key_of_tree

_EXPECT = re.compile(r"^// expect: (.+)$", re.MULTILINE)


def run(wanted: Wanted) -> Iterable[Finding]:
    sources = [
        path for path in repository.files(".cpp", under="tests/compile_fail") if wanted(path.stem)
    ]
    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(_check, sources)


def _check(source: Path) -> Finding:
    memory = PassMemory("compile_fail")
    key = key_of(key_of_machine(), compiler.version(), " ".join(compiler.COMMAND), key_of_tree("include"), source)
    if memory.knows(key):
        return Finding(source.stem)
    problem = _problem(source)
    if not problem:
        memory.remember(key)
    return Finding(source.stem, problem)


def _problem(source: Path) -> str:
    expected = _EXPECT.findall(source.read_text())
    if not expected:
        return "has no line `// expect: <regex>`"
    right = compiler.check_syntax(source, "-DRDMAXX_COMPILE_OK")
    if right is not None:
        return f"does not compile with RDMAXX_COMPILE_OK:\n{right}"
    wrong = compiler.check_syntax(source)
    if wrong is None:
        return "compiles, and must not"
    missing = [regex for regex in expected if not re.search(regex.strip(), wrong)]
    if missing:
        return f"fails without the message `{missing[0]}`:\n{wrong}"
    return ""
