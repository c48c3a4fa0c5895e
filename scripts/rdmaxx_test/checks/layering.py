"""Includes point down the layers only, and a layer's headers do not include each other in a circle.

LAYERS is the one list of the layers, the lowest first. A header belongs to the layer that its folder in
include/rdmaxx/ or src/ names. The umbrella header rdmaxx/rdmaxx.hpp stands above all layers. softverbs has
layers of its own.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rdmaxx_project import repository
from rdmaxx_test.checks import Finding, Wanted

SOFTVERBS_LAYERS = ("base", "net", "wire", "transport", "engine", "verbs", "cm", "files", "abi")
LAYERS = ("core", "verbs", "memory", "mlx5", "cm", "stream", "async")

# C libraries that only part of the library may need: the headers' beginning, and where they belong.
CONFINED = {"rdma/": ("cm", "stream", "async"), "infiniband/mlx5dv.h": ("mlx5",)}

UMBRELLA = Path("include/rdmaxx/rdmaxx.hpp")
_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def run(wanted: Wanted) -> Iterable[Finding]:
    sources = {
        path.relative_to(repository.ROOT): path.read_text()
        for folder in ("include", "src")
        for path in repository.files(*repository.CPP_SUFFIXES, under=folder)
    }
    yield Finding("includes", "\n".join(problems(sources)))
    softverbs = {
        path.relative_to(repository.ROOT / "softverbs"): path.read_text()
        for path in repository.files(*repository.CPP_SUFFIXES, under="softverbs")
    }
    yield Finding("includes of softverbs", "\n".join(softverbs_problems(softverbs)))


def problems(sources: dict[Path, str]) -> list[str]:
    """Everything that is wrong; `sources` maps paths in the repository to their text."""
    found = []
    graph: dict[Path, list[Path]] = {}
    for path, text in sources.items():
        if _is_unplaced(path):
            found.append(f"{path}: '{_layer(path)}' is not among the layers {', '.join(LAYERS)}")
            continue
        graph[path] = []
        for quote, name in _INCLUDE.findall(text):
            target = _resolve(path, name, quote, sources)
            found += _wrong_include(path, name, target)
            if target:
                graph[path].append(target)
    return found + [f"circle of includes: {' -> '.join(map(str, circle))}" for circle in _circles(graph)]


def softverbs_problems(sources: dict[Path, str]) -> list[str]:
    """The same for softverbs; paths begin with the layer. Its public header is C and includes nothing."""
    found = []
    graph: dict[Path, list[Path]] = {}
    for path, text in sources.items():
        layer = path.parts[0]
        if layer == "include":
            continue
        if layer not in SOFTVERBS_LAYERS:
            found.append(f"softverbs/{path}: '{layer}' is not among the layers {', '.join(SOFTVERBS_LAYERS)}")
            continue
        graph[path] = [Path(name) for _, name in _INCLUDE.findall(text) if Path(name) in sources]
        found += [
            f"softverbs/{path}: layer {layer} includes {target} of a higher layer"
            for target in graph[path]
            if SOFTVERBS_LAYERS.index(target.parts[0]) > SOFTVERBS_LAYERS.index(layer)
        ]
    return found + [f"circle of includes: {' -> '.join(map(str, circle))}" for circle in _circles(graph)]


def _layer(path: Path) -> str | None:
    below = path.parts[2:] if path.parts[0] == "include" else path.parts[1:]
    return below[0] if len(below) > 1 else None


def _is_unplaced(path: Path) -> bool:
    return path != UMBRELLA and _layer(path) not in LAYERS


def _resolve(path: Path, name: str, quote: str, sources: dict[Path, str]) -> Path | None:
    """The file of ours that an include means; None for a foreign one."""
    places = [Path("include") / name, Path("src") / name]
    if quote == '"':
        places.insert(0, path.parent / name)
    for place in places:
        if place in sources:
            return place
    return places[-2] if name.startswith("rdmaxx/") else None


def _wrong_include(path: Path, name: str, target: Path | None) -> Iterator[str]:
    layer = _layer(path)
    if target is None:
        for beginning, layers in CONFINED.items():
            if name.startswith(beginning) and layer not in layers:
                yield f"{path}: {name} may only be included in {', '.join(layers)}"
        return
    if path.parts[0] == "include" and target.parts[0] != "include":
        yield f"{path}: a public header includes {target}, which is not installed"
    if target == UMBRELLA:
        yield f"{path}: includes the umbrella header, which includes everything"
    elif path != UMBRELLA and _layer(target) in LAYERS:
        if LAYERS.index(_layer(target)) > LAYERS.index(layer):
            yield f"{path}: layer {layer} includes {name} of the higher layer {_layer(target)}"


def _circles(graph: dict[Path, list[Path]]) -> Iterator[list[Path]]:
    done: set[Path] = set()

    def visit(path: Path, trail: list[Path]) -> Iterator[list[Path]]:
        if path in trail:
            yield [*trail[trail.index(path) :], path]
        elif path not in done:
            for target in graph.get(path, ()):
                yield from visit(target, [*trail, path])
            done.add(path)

    for path in graph:
        yield from visit(path, [])
