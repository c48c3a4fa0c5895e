"""A project of its own, tests/consumer, builds against the installed library and runs."""

import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from rdmaxx_project.repository import ROOT
from rdmaxx_test import compiler, installed_tree, system_headers
from rdmaxx_test.checks import Finding, Wanted

HEADERS_OF_LIBRDMACM = ["rdma/rdma_cma.h", "rdma/rdma_verbs.h", "rdma/rsocket.h"]
SOURCE = ROOT / "tests" / "consumer"


def run(wanted: Wanted) -> Iterable[Finding]:
    cases: dict[str, Callable[[], None]] = {
        "static": lambda: _use(installed_tree.install("static")),
        "shared": lambda: _use(installed_tree.install("shared")),
        "subdirectory": _use_as_subdirectory,
        "only the software device is named": _name_only_softverbs,
        "unknown component": _ask_for_unknown_component,
        "pkg-config": _use_pkg_config,
        "licence and documents": _find_documents,
        "without librdmacm": _do_without_librdmacm,
        "C++20": _compile_as_cpp20,
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
    options = [f"-DRDMAXX_SOURCE={ROOT}", "-DRDMAXX_BUILD_SOFTVERBS=ON", "-DRDMAXX_WARNINGS_AS_ERRORS=ON"]
    flags = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG"]  # as the preset `release`
    _build_and_run(installed_tree.build_folder("subdirectory"), *options, *flags)


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


def _use_pkg_config() -> None:
    prefix = installed_tree.install("shared")
    library = _library_folder(prefix)
    program = prefix.parent / "consumer-by-pkg-config"
    modules = ["softverbs", "rdmaxx"]  # the software device first: its functions are to be found first
    flags = installed_tree.run_step(
        "pkg-config", ["pkg-config", "--cflags", "--libs", *modules], program, PKG_CONFIG_PATH=f"{library}/pkgconfig"
    ).split()
    _compile(program, SOURCE / "soft.cpp", *flags)
    installed_tree.run_step(f"running {program.name}", [program], program, LD_LIBRARY_PATH=str(library))


def _find_documents() -> None:
    prefix = installed_tree.install("static")
    expected = ["LICENSE", "README.md", "CHANGELOG.md", "docs/architecture.md", "examples/01_devices.cpp"]
    missing = [name for name in expected if not (prefix / "share/doc/rdmaxx" / name).exists()]
    if missing:
        raise installed_tree.InstallFailure(f"not installed: {', '.join(missing)}")


def _do_without_librdmacm() -> None:
    """The component `verbs` is built, found and used where nobody has the headers of librdmacm."""
    prefix = installed_tree.install("verbs")
    build = prefix.parent / "consumer"
    _configure(build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCOMPONENTS=verbs", "-DONLY_VERBS=ON")
    installed_tree.run_step("building the consumer", ["cmake", "--build", build], build)
    program = prefix.parent / "consumer-without-headers"
    libraries = [f"-L{_library_folder(prefix)}", "-lrdmaxx_verbs", "-libverbs", "-lfmt"]
    headers = system_headers.without(prefix.parent / "system-headers", HEADERS_OF_LIBRDMACM)
    _compile(program, SOURCE / "main.cpp", f"-I{prefix}/include", *headers, *libraries)
    installed_tree.run_step(f"running {program.name}", [program], program)


def _compile_as_cpp20() -> None:
    """One message, that says what to do."""
    prefix = installed_tree.install("static")
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{prefix}/include", str(SOURCE / "umbrella.cpp")]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line for line in compiled.stderr.splitlines() if "error:" in line]
    if len(errors) != 1 or "-std=c++23" not in errors[0]:
        raise installed_tree.InstallFailure(f"{len(errors)} errors instead of one:\n{compiled.stderr[:2000]}")


def _compile(program: Path, source: Path, *options: str) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    if problem := compiler.build_program(source, program, *options):
        raise installed_tree.InstallFailure(problem)


def _library_folder(prefix: Path) -> Path:
    return next(path.parent.parent for path in prefix.rglob("pkgconfig/rdmaxx.pc"))


def _compiler_cache() -> list[str]:
    """As in cmake/CompilerCache.cmake, which is there for rdmaxx as the top-level project alone."""
    found = shutil.which("ccache")
    return ["env", "CCACHE_NOHASHDIR=1", f"CCACHE_BASEDIR={ROOT}", found] if found else []


def _configure(build: Path, *options: str) -> None:
    shutil.rmtree(build, ignore_errors=True)
    cache = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={';'.join(launcher)}"] if (launcher := _compiler_cache()) else []
    build.parent.mkdir(parents=True, exist_ok=True)
    command = ["cmake", "-G", "Ninja", "-S", SOURCE, "-B", build, "-DCMAKE_CXX_COMPILER=g++", *cache, *options]
    installed_tree.run_step("configuring the consumer", command, build)
