"""All checks, in the order in which they run: what is quick to say comes first."""

from rdmaxx_test.checks import (
    Check,
    build,
    capture,
    compile_fail,
    consumer,
    formatting,
    fuzz,
    headers,
    layering,
    processes,
    programs,
    scripts,
    self_description,
    snippets,
    softverbs_abi,
    tidy,
)

ALL = (
    Check("format", formatting.run, cheap=True),
    Check("layering", layering.run, cheap=True),
    Check("scripts", scripts.run, cheap=True),
    Check("project speaks of itself", self_description.run, cheap=True),
    Check("build", build.run),
    Check("headers", headers.run),
    Check("compile_fail", compile_fail.run),
    Check("consumer", consumer.run),
    Check("snippets", snippets.run),
    Check("softverbs abi", softverbs_abi.run),
    Check("programs", programs.run),
    Check("capture", capture.run),
    Check("processes", processes.run),
    Check("fuzz", fuzz.run),
    Check("tidy", tidy.run),
    Check("tidy tests", tidy.run_on_tests, thorough=True),
)
