"""libsoftverbs stands in for the libibverbs and librdmacm of this machine: same names, versions, words."""

import ctypes
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from rdmaxx_project import presets
from rdmaxx_project.repository import ROOT
from rdmaxx_test.checks import Finding, Wanted

PRESET = "dev"
HEADER = ROOT / "softverbs/include/softverbs/softverbs.h"

# Its version in libibverbs is private and changes; without one it satisfies them all.
UNVERSIONED = {"ibv_query_gid_type"}
OWN_VERSION = "SOFTVERBS_0"

# Functions of the C library that look at files by name, which are asked about soft devices first. They have no version,
# to stand for all of those that the C library gives them.
FILE_FUNCTIONS = {
    *("open", "open64", "openat", "openat64", "__open_2", "__open64_2", "__openat_2", "__openat64_2"),
    *("fopen", "fopen64"),
    *("opendir", "fdopendir", "readdir", "readdir64", "readdir_r", "readdir64_r", "closedir", "rewinddir"),
    *("seekdir", "telldir", "dirfd", "scandir", "scandir64", "scandirat", "scandirat64"),
    *("stat", "stat64", "lstat", "lstat64", "fstat", "fstat64", "fstatat", "fstatat64", "statx"),
    *("__xstat", "__xstat64", "__lxstat", "__lxstat64", "__fxstat", "__fxstat64", "__fxstatat", "__fxstatat64"),
    *("access", "faccessat", "euidaccess", "eaccess"),
    *("readlink", "readlinkat", "realpath", "canonicalize_file_name"),
    *("__readlink_chk", "__readlinkat_chk", "__realpath_chk"),
    *("chdir", "fchdir", "getcwd", "__getcwd_chk", "get_current_dir_name"),
    *("getxattr", "lgetxattr", "listxattr", "llistxattr"),
}

# Functions of one number that libsoftverbs answers itself, and the numbers to try.
TEXTS = {
    "ibv_node_type_str": range(-1, 9),
    "ibv_port_state_str": range(-1, 7),
    "ibv_event_type_str": range(-1, 21),
    "ibv_wc_status_str": range(-1, 25),
}
CM_TEXTS = {"rdma_event_str": range(-1, 18)}
NUMBERS = {
    "ibv_rate_to_mult": range(-1, 26),
    "ibv_rate_to_mbps": range(-1, 26),
    "mult_to_ibv_rate": range(-1, 500),
    "mbps_to_ibv_rate": range(-1, 1_300_000),
}


def run(wanted: Wanted) -> Iterable[Finding]:
    try:
        presets.build(PRESET, "softverbs")
    except presets.BuildFailure as failure:
        yield Finding("build", failure.output)
        return
    ours, real = presets.directory(PRESET) / "lib/libsoftverbs.so", _library("ibverbs")
    known = exported(real) | {name: version for name, version in exported(_library("rdmacm")).items() if _is_cm(name)}
    cases: dict[str, Callable[[], list[str]]] = {
        "names and versions": lambda: missing(exported(ours), known | dict.fromkeys(FILE_FUNCTIONS, "")),
        "nothing else is visible": lambda: superfluous(exported(ours), known),
        "works without libibverbs": lambda: _dependencies_on_rdma_core(ours),
        "the same answers": lambda: _different_answers(ctypes.CDLL(ours), ctypes.CDLL(real), TEXTS, NUMBERS),
        "the same answers about connections": lambda: _different_answers(
            ctypes.CDLL(ours), ctypes.CDLL(_library("rdmacm")), CM_TEXTS, {}
        ),
        "the header is C": _not_c,
    }
    for name, case in cases.items():
        if wanted(name):
            yield Finding(name, "\n".join(case()))


def missing(ours: dict[str, str], real: dict[str, str]) -> list[str]:
    """Public functions of the real library that a program would not find in ours."""
    return [
        f"libsoftverbs has {name}@{ours[name]} instead of {name}@{version}"
        if name in ours
        else f"libsoftverbs has no {name}@{version}"
        for name, version in sorted(real.items())
        if not _is_private(version) and ours.get(name) != version
    ]


def superfluous(ours: dict[str, str], real: dict[str, str]) -> list[str]:
    allowed = real.keys() | UNVERSIONED | FILE_FUNCTIONS
    return [
        f"libsoftverbs exports {name}@{version}"
        for name, version in sorted(ours.items())
        if (name not in allowed and version != OWN_VERSION)
        or (name in real and _is_private(real[name]) and name not in UNVERSIONED)
    ]


def exported(library: Path) -> dict[str, str]:
    """The names that a library defines, each with its newest version ("" for none)."""
    listing = _output("readelf", "--dyn-syms", "--wide", library)
    return parse(listing)


def parse(listing: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for line in listing.splitlines():
        columns = line.split()
        if len(columns) < 8 or columns[3] not in ("FUNC", "OBJECT") or columns[6] in ("UND", "ABS"):
            continue
        name, is_default, version = re.match(r"([^@]+)(@@?)?(.*)", columns[7]).groups()
        if is_default != "@" or name not in names:  # name@version is an old one beside name@@version
            names[name] = version
    return names


def _is_private(version: str) -> bool:
    return "PRIVATE" in version


def _is_cm(name: str) -> bool:
    """Of rsockets, which look behind the real library's identifiers, only what refuses to make one."""
    return name.startswith("rdma_") or name == "rsocket"


def _library(component: str) -> Path:
    cache = (presets.directory(PRESET) / "CMakeCache.txt").read_text()
    return Path(re.search(rf"^RdmaCore_{component}_LIBRARY:\w+=(.+)$", cache, re.MULTILINE)[1]).resolve()


def _dependencies_on_rdma_core(library: Path) -> list[str]:
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", _output("readelf", "--dynamic", library))
    return [f"libsoftverbs needs {name}" for name in needed if re.match("libibverbs|librdmacm", name)]


def _different_answers(
    ours: ctypes.CDLL, real: ctypes.CDLL, texts: dict[str, range], numbers: dict[str, range]
) -> list[str]:
    found = []
    for names, kind in ((texts, ctypes.c_char_p), (numbers, ctypes.c_int)):
        for name, arguments in names.items():
            functions = [getattr(library, name) for library in (ours, real)]
            for function in functions:
                function.restype = kind
            for argument in arguments:
                answer, expected = (function(argument) for function in functions)
                if answer != expected:
                    found.append(f"{name}({argument}) is {answer}, in the real library {expected}")
    return found


def _not_c() -> list[str]:
    command = ["gcc", "-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Wstrict-prototypes"]
    compiled = subprocess.run(
        [*command, "-Werror", "-fsyntax-only", "-x", "c", "-"],
        input=f'#include "{HEADER}"\nint main(void) {{ return softverbs_version() == 0; }}\n',
        capture_output=True,
        text=True,
        check=False,
    )
    return compiled.stderr.splitlines() if compiled.returncode else []


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
