"""The environment of a command in a guest: a chosen part of the caller's, not all of it."""

import os
import re

from .failure import UsageError

# What programs need to find their files and to know the language, and what steers this project's own tests.
PASSED_NAMES = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TERM", "TZ"]
PASSED_PATTERN = re.compile(r"(RDMAXX|GTEST|BENCHMARK|CTEST|CMAKE)_\w+|[A-Z]+SAN_OPTIONS|LLVM_PROFILE_FILE|GCOV_\w+")

FALLBACK_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def command_environment(wishes: list[str]) -> dict[str, str]:
    """`wishes` are the --env options: NAME=VALUE sets, NAME passes the caller's value on."""
    environment = {"PATH": FALLBACK_PATH}
    for name, value in os.environ.items():
        if name in PASSED_NAMES or PASSED_PATTERN.fullmatch(name):
            environment[name] = value
    # Commands run as root in the guest, whose tools are in directories that a user's PATH may lack.
    for directory in ("/usr/sbin", "/sbin"):
        if directory not in environment["PATH"].split(":"):
            environment["PATH"] += f":{directory}"
    for wish in wishes:
        name, assigned, value = wish.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise UsageError(f"--env {wish}: '{name}' is not the name of an environment variable")
        if assigned:
            environment[name] = value
        elif name in os.environ:
            environment[name] = os.environ[name]
        else:
            raise UsageError(f"--env {name}: the variable is not set here; give it a value as in --env {name}=VALUE")
    return environment
