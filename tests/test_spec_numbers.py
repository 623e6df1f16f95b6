"""Which test closes what: each number of the specification marks a test, or its part is named as not here.

    python -m tests.test_spec_numbers          prints number -> tests

W: weaknesses of §21; case: §22; T: traces of §18; R, D, V: rules and defects of AgentScope Python. Marks may name
other sections and lists too; those are not counted.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parent

WANTED = [
    *(f"W{n:02d}" for n in range(1, 82)),
    *(f"case {n}" for n in range(1, 161)),
    *(f"T{n}" for n in range(1, 13)),
    *(f"R{n}" for n in range(1, 28)),
    *(f"D{n}" for n in range(1, 15)),
    *(f"V{n}" for n in range(1, 4)),
    "§22.10",
]

NOT_HERE: dict[str, str] = {}
"""Parts that the project does not have yet: a change that adds one marks its tests and removes its numbers here."""


def numbers(decorator: ast.expr) -> list[str]:
    """The arguments of `@pytest.mark.spec(...)`; of another decorator none."""
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.spec":
        return [ast.literal_eval(argument) for argument in decorator.args]
    return []


def matrix() -> dict[str, list[str]]:
    """Number -> the tests that it marks. The files are read, not imported: that takes a second."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "mark.spec" in text else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in (each for decorator in node.decorator_list for each in numbers(decorator)):
                    found[number].append(f"{path.relative_to(TESTS).with_suffix('').as_posix()}::{node.name}")
    return found


def test_every_number_marks_a_test_or_is_not_here_yet():
    found = matrix()
    assert [number for number in WANTED if number not in found and number not in NOT_HERE] == []
    assert [number for number in NOT_HERE if number in found] == [], "it is here now"
    assert set(NOT_HERE) <= set(WANTED)


def test_marks_are_read_from_decorators():
    call = '@pytest.mark.slow("W01")\n@pytest.mark.spec("W05", "case 3")\n@plain\ndef test_it(): "W06"'
    (function,) = ast.parse(call).body
    assert isinstance(function, ast.FunctionDef)
    assert [numbers(each) for each in function.decorator_list] == [[], ["W05", "case 3"], []]


if __name__ == "__main__":
    tests = matrix()
    for wanted in WANTED:
        print(f"{wanted:9}", NOT_HERE.get(wanted) or "; ".join(tests[wanted]))  # noqa: T201
