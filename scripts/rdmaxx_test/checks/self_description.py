"""The project speaks of itself: no paths of somebody's machine, no notes of what is still to do."""

import re
from collections.abc import Iterable

from rdmaxx_project import repository
from rdmaxx_test.checks import Finding, Wanted

# Written so that this file does not find itself.
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.])/(?:work|root|home)/(?=\w)"),
    "a note of what is still to do": re.compile(r"\b(?:TO[D]O|FIX[M]E)\b"),
}


def run(wanted: Wanted) -> Iterable[Finding]:
    found = []
    for path in repository.files():
        content = path.read_bytes()
        if b"\0" not in content:
            found += problems(repository.relative(path), content.decode(errors="replace"))
    yield Finding("text", "\n".join(found))


def problems(name: str, text: str) -> list[str]:
    return [
        f"{name}:{number}: {what}: {line.strip()[:120]}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in FORBIDDEN.items()
        if pattern.search(line)
    ]
