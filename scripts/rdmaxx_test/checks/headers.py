"""Every public header compiles alone, and twice in a row (see tests/headers/CMakeLists.txt)."""

import re
from collections.abc import Iterable

from rdmaxx_project import presets, repository
from rdmaxx_test.checks import Finding, Wanted

TARGET = "header_tests"


def run(wanted: Wanted) -> Iterable[Finding]:
    headers = repository.files(".hpp", under="include")
    if not headers:
        return
    problems = {}
    try:
        presets.build("dev", TARGET, keep_going=True)
    except presets.BuildFailure as failure:
        problems = by_header(failure.output)
    names = [str(path.relative_to(repository.ROOT / "include/rdmaxx").with_suffix("")) for path in headers]
    if not problems.keys() <= set(names):
        yield Finding("build", "\n".join(problems.values()))
    for name in names:
        if wanted(name):
            yield Finding(name, problems.get(name, ""))


def by_header(output: str) -> dict[str, str]:
    """Splits Ninja's output at its failed steps; '' holds what belongs to no header."""
    found = {}
    for step in re.split(r"^(?=FAILED: )", output, flags=re.MULTILINE):
        named = re.match(rf"FAILED: \S*{TARGET}\.dir/rdmaxx/(\S+)\.hpp\.cpp\.o", step)
        if named:
            found[named[1]] = step
        elif step.startswith("FAILED: ") or not found:
            found[""] = found.get("", "") + step
    if len(found) > 1 and not found.get("", "x").strip():
        del found[""]
    return found
