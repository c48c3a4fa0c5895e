import argparse
from fnmatch import fnmatchcase

from rdmaxx_bench import registry, report, runners
from rdmaxx_bench.benchmark import Benchmark
from rdmaxx_project import presets, processes, progress

DESCRIPTION = """\
Measures rdmaxx beside its peers, in the same run and on the same machine, and prints one table.
Those that need a device of the kernel run in the testbed's guest, with --guest or --strict.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench", description=DESCRIPTION)
    parser.add_argument("filter", nargs="*", help="part of a benchmark's name, or a glob")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--strict", action="store_true", help="measure every goal, those of the guest too; fail where one is missed or not measured")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--guest", action="store_true", help="also measure what needs the testbed's guest")
    where.add_argument("--no-guest", action="store_true", help="leave that out, also with --strict")
    parser.add_argument("--list", action="store_true", help="say what would be measured, and stop")
    request = parser.parse_args()

    chosen = [benchmark for benchmark in registry.ALL if _wanted(benchmark.name, request.filter)]
    if not chosen:
        progress.line("no benchmark has such a name; ./bench --list tells them all")
        return 2
    if request.list:
        for benchmark in chosen:
            print(f"{benchmark.name} [{benchmark.unit}] against {benchmark.peer}: {benchmark.goal}"
                  f" ({benchmark.runner.where})")
        return 0
    everywhere, chosen = chosen, _here(chosen, request)
    if left_out := len(everywhere) - len(chosen):
        progress.line(f"{left_out} benchmarks need the guest and are left out; --guest adds them")
    if not chosen:
        return 1 if request.strict else 0  # nothing was measured, so no goal is met
    try:
        presets.build(runners.PRESET, *runners.TARGETS)
    except presets.BuildFailure as failure:
        progress.line(f"{failure.output}\n{failure}")
        return 1
    _prepare([benchmark.runner for benchmark in chosen])
    measurements = [_measure(benchmark) for benchmark in chosen]
    print(report.as_json(measurements) if request.json else report.table(measurements))
    return 1 if request.strict and not all(measurement.met for measurement in measurements) else 0


def _wanted(name: str, words: list[str]) -> bool:
    return not words or any(word in name or fnmatchcase(name, word) for word in words)


def _here(chosen: list[Benchmark], request: argparse.Namespace) -> list[Benchmark]:
    """A goal that is not measured is not met: who is strict leaves out only what they name."""
    guest = request.guest or (request.strict and not request.no_guest)
    return [benchmark for benchmark in chosen if guest or benchmark.runner.where != "guest"]


def _prepare(chosen: list[runners.Runner]) -> None:
    for kind in dict.fromkeys(map(type, chosen)):
        kind.prepare([runner for runner in chosen if type(runner) is kind])


def _measure(benchmark: Benchmark) -> report.Measurement:
    progress.moving(f"measuring {benchmark.name}")
    try:
        numbers = benchmark.runner.measure()
        return report.Measurement(benchmark, numbers, numbers.problem)
    except runners.Unmeasured as problem:
        return report.Measurement(benchmark, None, str(problem))


if __name__ == "__main__":
    processes.end_cleanly(main)
