"""Which test closes what: each number is cited in the docstring of a test, or is said not to be here, and why.

    python -m tests.acceptance.test_matrix          prints number -> tests

W: weaknesses of §21; case: §22; T: traces of §18; R, D, V: rules and defects of AgentScope Python.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

WANTED = [
    *(f"W{n:02d}" for n in range(1, 82)),
    *(f"case {n}" for n in range(1, 161)),
    *(f"T{n}" for n in range(1, 13)),
    *(f"R{n}" for n in range(1, 28)),
    *(f"D{n}" for n in range(1, 15)),
    *(f"V{n}" for n in range(1, 4)),
    "§22.10",
]

NOT_HERE = {
    **dict.fromkeys(["W46", "case 136", "case 137", "case 160"], "long-term memory and RAG"),
    **dict.fromkeys(["case 49", "case 50", "case 51", "case 52"], "the JSONL trace exporter"),
    **dict.fromkeys(["W74", *(f"case {n}" for n in range(147, 153))], "plans"),
    "case 153": "the sequential pipeline",
    **dict.fromkeys(["W76", "case 154", "case 155"], "pipelines"),
    **dict.fromkeys(["W75", "case 156", "case 157"], "the message hub"),
    "D6": "compression of memory",
    "D11": "the message hub",
    "D12": "background tools",
}
"""Parts that the project does not have yet: who adds one closes its numbers, and takes them out of here."""

_CODES = re.compile(r"\b([WRDVT])(\d{1,2})\b(?:-\1?(\d{1,2})\b)?")
_CASES = re.compile(r"\b[Cc]ases?\s+((?:\d+(?:-\d+)?(?:,\s*|\s+and\s+)?)+)")


def cited(doc: str) -> Iterator[str]:
    """The numbers that a docstring cites; ranges written out."""
    for letter, first, last in _CODES.findall(doc):
        for number in range(int(first), int(last or first) + 1):
            yield f"W{number:02d}" if letter == "W" else f"{letter}{number}"
    for numbers in _CASES.findall(doc):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", numbers):
            yield from (f"case {number}" for number in range(int(first), int(last or first) + 1))
    if "§22.10" in doc:
        yield "§22.10"


def matrix() -> dict[str, list[str]]:
    """Number -> the tests that cite it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in set(cited(ast.get_docstring(node) or "")):
                    found[number].append(f"{path.relative_to(TESTS).with_suffix('').as_posix()}::{node.name}")
    return found


def test_every_number_is_cited_or_said_not_to_be_here():
    found = matrix()
    assert [number for number in WANTED if number not in found and number not in NOT_HERE] == []
    assert [number for number in NOT_HERE if number in found] == [], "it is here now"
    assert set(NOT_HERE) <= set(WANTED)


def test_how_numbers_are_read():
    doc = "W05, R1-R3; §22 cases 3-4, 7 and 9, case 12. T1"
    assert list(cited(doc)) == ["W05", "R1", "R2", "R3", "T1", "case 3", "case 4", "case 7", "case 9", "case 12"]


if __name__ == "__main__":
    tests = matrix()
    for wanted in WANTED:
        print(f"{wanted:9}", NOT_HERE.get(wanted) or "; ".join(tests[wanted]))  # noqa: T201
