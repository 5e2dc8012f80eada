"""Imports run one way: server -> engine <- worker."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("server", "engine", "worker")

# What each package may import of the others, as module prefixes.
ALLOWED = {
    "server": ("engine",),
    "engine": (),
    "worker": (
        "engine.messages",
        "engine.lanes",
        "engine.wire",
        "engine.pipeline",
        "engine.errors",
        "engine.strict",
        "engine.trace",
        "engine.placement.spec",
        "engine.placement.keys",
    ),
}
# Third-party modules that a package must never pull in.
FORBIDDEN = {
    "server": {"torch", "onnxruntime", "vllm"},
    "engine": {"torch", "onnxruntime", "vllm", "fastapi", "starlette"},
    "worker": {"fastapi", "starlette", "uvicorn"},
}
# The caller's side of a model family runs in the API process.
LIGHT = ("worker/models/*/adapter.py", "worker/models/hibari/text/clean.py")


def imported_modules(path: Path, *, at_import: bool = False) -> Iterator[str]:
    """Modules that a file imports anywhere, or only those that importing it imports."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    for node in module.body if at_import else ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def source_files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_its_layer_may(package: str) -> None:
    breaches = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in source_files(package)
        for module in imported_modules(path)
        if is_breach(package, module)
    ]
    assert source_files(package)
    assert breaches == []


def is_breach(package: str, module: str) -> bool:
    top = module.partition(".")[0]
    if top in FORBIDDEN[package]:
        return True
    if top not in PACKAGES or top == package:
        return False
    prefixes = ALLOWED[package]
    return not any(
        module == prefix or module.startswith(f"{prefix}.") or prefix.startswith(f"{module}.")
        for prefix in prefixes
    )


@pytest.mark.parametrize("pattern", LIGHT)
def test_the_callers_side_of_a_model_is_light_and_never_runs_one(pattern: str) -> None:
    runtimes = {"torch", "onnxruntime", "vllm"}
    heavy = runtimes | {"numpy", "hibari", "scipy", "onnx"}
    paths = sorted(ROOT.glob(pattern))
    assert paths
    for path in paths:
        assert heavy.isdisjoint(reachable_tops(path, at_import=True)), path
        assert runtimes.isdisjoint(reachable_tops(path, at_import=False)), path


def reachable_tops(start: Path, *, at_import: bool) -> set[str]:
    """Top-level names of all modules reached through this project's own worker modules."""
    seen, stack, tops = set[Path](), [start], set[str]()
    while stack:
        path = stack.pop()
        if path in seen:
            continue
        seen.add(path)
        for module in imported_modules(path, at_import=at_import):
            tops.add(module.partition(".")[0])
            if module.startswith("worker."):
                own = ROOT / (module.replace(".", "/") + ".py")
                if own.is_file():
                    stack.append(own)
    return tops


@pytest.mark.parametrize("package", PACKAGES)
def test_package_init_files_are_empty(package: str) -> None:
    for path in (ROOT / package).rglob("__init__.py"):
        assert path.read_text(encoding="utf-8").strip() == "", path


def test_there_is_no_cycle_between_modules() -> None:
    graph = {
        module_name(path): {m for m in imported_modules(path) if m.partition(".")[0] in PACKAGES}
        for package in PACKAGES
        for path in source_files(package)
    }
    assert find_cycle(graph) is None


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def find_cycle(graph: dict[str, set[str]]) -> list[str] | None:
    done: set[str] = set()

    def visit(module: str, trail: list[str]) -> list[str] | None:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module in done or module not in graph:
            return None
        for other in graph[module]:
            cycle = visit(other, [*trail, module])
            if cycle:
                return cycle
        done.add(module)
        return None

    for module in graph:
        cycle = visit(module, [])
        if cycle:
            return cycle
    return None
