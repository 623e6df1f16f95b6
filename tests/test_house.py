"""The house: no import circles, no function named as a module beside it, readable files and names, whole tables.

Imports are read from the source (the AST), at run time and for types alike: an `if TYPE_CHECKING` hides a circle from
Python, not from a reader. The circles that remain are listed below. Take entries out when one is cut; add none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from benchmarks.cases import CASES
from benchmarks.rows import ROWS

ROOT = Path(__file__).parent.parent
PACKAGE = "agentscope_rx"
MAX_LINES = 500
MAX_NAME = 59

TYPE_CIRCLES = {
    frozenset({"agent.conversation", "agent.sub_agent.conversations"}),
    frozenset({"console.live", "console.output"}),
    frozenset({"reactive.kernel.bridge", "reactive.kernel.flow"}),
    frozenset({"tools.base", "tools.context"}),
    frozenset({"tools.mcp.call", "tools.mcp.session"}),
}
"""The circles that types alone make: each one, or a part of it, is allowed."""

NAMESAKES: set[str] = set()
"""Exported functions that have the name of a module beside them. Take out those that are renamed; add none."""


@cache
def modules() -> dict[str, Path]:
    """Every module of the package, by its dotted name."""
    found: dict[str, Path] = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file's source."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.AST, *, types: bool) -> Iterator[str]:
    """The names that a module imports when it is loaded; with `types` also under TYPE_CHECKING and in functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and not types:
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in modules() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        yield from imports(node, types=types)


@cache
def circles(*, types: bool) -> set[frozenset[str]]:
    """The sets of modules that import each other, directly or through others (Tarjan's components)."""
    graph = {
        name: {other for other in imports(parsed(path), types=types) if other in modules()} - {name}
        for name, path in modules().items()
    }
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            component = frozenset(each.removeprefix(f"{PACKAGE}.") for each in stack[at:])
            del stack[at:]
            if len(component) > 1:
                found.add(component)

    for name in graph:
        if name not in index:
            visit(name)
    return found


def exported(tree: ast.Module) -> set[str]:
    """The names in `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return set(ast.literal_eval(node.value))
    return set()


def test_no_module_imports_itself_through_others_when_loaded():
    assert circles(types=False) == set()


def test_types_make_only_the_circles_that_are_known():
    unknown = [sorted(each) for each in circles(types=True) if not any(each <= known for known in TYPE_CIRCLES)]
    assert unknown == []


def test_no_circle_is_listed_that_is_gone():
    found = circles(types=True)
    gone = [sorted(known) for known in TYPE_CIRCLES if not any(each <= known for each in found)]
    assert gone == [], "take them out of TYPE_CIRCLES"


def test_no_exported_name_is_that_of_a_module_beside_it():
    found = {
        f"{package}.{name}".removeprefix(f"{PACKAGE}.")
        for package, path in modules().items()
        if path.name == "__init__.py"
        for name in exported(parsed(path))
        if f"{package}.{name}" in modules()
    }
    assert found == NAMESAKES


@pytest.mark.parametrize("folder", sorted({path.relative_to(ROOT).parts[1] for path in modules().values()}))
def test_files_have_at_most_500_lines(folder: str):
    files = (path for path in modules().values() if path.relative_to(ROOT).parts[1] == folder)
    long = {str(path.relative_to(ROOT)): n for path in files if (n := path.read_text().count("\n")) > MAX_LINES}
    assert long == {}


def test_names_of_tests_are_shorter_than_60_characters():
    """A longer name tells a story; the docstring is the place for it."""
    long = [
        f"{path.relative_to(ROOT)}::{name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
        if len(name) > MAX_NAME
    ]
    assert long == []


def test_every_row_of_the_benchmarks_has_its_case():
    assert {case for _, case, _ in ROWS} - set(CASES) == set()
