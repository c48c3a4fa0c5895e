"""A project of its own, tests/consumer, builds against the installed library and runs."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from rdmaxx_project.repository import ROOT
from rdmaxx_test import installed_tree
from rdmaxx_test.checks import Finding, Wanted

SOURCE = ROOT / "tests" / "consumer"


def run(wanted: Wanted) -> Iterable[Finding]:
    cases: dict[str, Callable[[], None]] = {
        "static": lambda: _use(installed_tree.install("static")),
        "shared": lambda: _use(installed_tree.install("shared")),
        "subdirectory": _use_as_subdirectory,
        "only the software device is named": _name_only_softverbs,
        "unknown component": _ask_for_unknown_component,
    }
    for name, case in cases.items():
        if wanted(name):
            try:
                case()
            except installed_tree.InstallFailure as failure:
                yield Finding(name, str(failure))
            else:
                yield Finding(name)


def _use(prefix: Path) -> None:
    _build_and_run(prefix.parent / "consumer", f"-DCMAKE_PREFIX_PATH={prefix}")


def _use_as_subdirectory() -> None:
    options = [f"-DRDMAXX_SOURCE={ROOT}", "-DRDMAXX_BUILD_SOFTVERBS=ON"]
    _build_and_run(installed_tree.FOLDER / "subdirectory" / "consumer", *options)


def _build_and_run(build: Path, *options: str) -> None:
    _configure(build, *options)
    installed_tree.run_step("building the consumer", ["cmake", "--build", build], build)
    for program in ("consumer", "verbs_consumer", "cm_consumer", "soft_consumer", "stream_consumer"):
        installed_tree.run_step(f"running {program}", [build / program], build)


def _name_only_softverbs() -> None:
    prefix = installed_tree.install("static")
    _build_and_run(prefix.parent / "consumer-of-softverbs", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCOMPONENTS=softverbs")


def _ask_for_unknown_component() -> None:
    prefix = installed_tree.install("static")
    build = prefix.parent / "consumer-of-unknown"
    try:
        _configure(build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCOMPONENTS=verbs;teleport")
    except installed_tree.InstallFailure as failure:
        if "rdmaxx has no component 'teleport' here; installed are: " not in " ".join(str(failure).split()):
            raise
    else:
        raise installed_tree.InstallFailure("find_package accepted the component 'teleport'")


def _configure(build: Path, *options: str) -> None:
    shutil.rmtree(build, ignore_errors=True)
    cache = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={found}"] if (found := shutil.which("ccache")) else []
    build.parent.mkdir(parents=True, exist_ok=True)
    installed_tree.run_step(
        "configuring the consumer", ["cmake", "-G", "Ninja", "-S", SOURCE, "-B", build, *cache, *options], build
    )
