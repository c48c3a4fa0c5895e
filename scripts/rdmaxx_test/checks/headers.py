"""Every public header compiles alone (see tests/headers/CMakeLists.txt), and says `#pragma once`."""

import re
from collections.abc import Iterable

from rdmaxx_project import presets, repository
from rdmaxx_test.checks import Finding, Wanted

TARGET = "all_verify_interface_header_sets"


def run(wanted: Wanted) -> Iterable[Finding]:
    problems = {}
    try:
        presets.build("dev", TARGET, keep_going=True)
    except presets.BuildFailure as failure:
        problems = by_header(failure.output)
    folder = repository.ROOT / "include/rdmaxx"
    headers = {str(path.relative_to(folder).with_suffix("")): path for path in repository.files(".hpp", under="include")}
    if not problems.keys() <= headers.keys():
        yield Finding("build", "\n".join(problems.values()))
    for name, path in headers.items():
        if wanted(name):
            once = re.search(r"^#pragma once$", path.read_text(), re.MULTILINE)
            yield Finding(name, problems.get(name, "" if once else "has no line `#pragma once`"))


def by_header(output: str) -> dict[str, str]:
    """Splits Ninja's output at its failed steps; '' holds what belongs to no header."""
    found = {}
    for step in re.split(r"^(?=FAILED: )", output, flags=re.MULTILINE):
        named = re.match(r"FAILED: \S*_verify_interface_header_sets/rdmaxx/(\S+)\.hpp\.cxx\.o", step)
        if named:
            found[named[1]] = step
        elif step.startswith("FAILED: ") or not found:
            found[""] = found.get("", "") + step
    if len(found) > 1 and not found.get("", "x").strip():
        del found[""]
    return found
