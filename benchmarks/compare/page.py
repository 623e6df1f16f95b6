"""The tables and pictures of docs/performance.md, from docs/performance.json: `python -m benchmarks.compare.page`.

They stand between markers such as `<!-- table -->` and `<!-- end -->`; what is outside of them is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.compare.chart import Line, chart, short
from benchmarks.compare.plan import CORE, FULL, SIDES
from benchmarks.compare.results import Results

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = DOCS / "performance.md"
DATA = DOCS / "performance.json"
PICTURES = DOCS / "pictures"


def load(path: Path = DATA) -> Results:
    """The results that the page shows."""
    return Results.of(json.loads(path.read_text(encoding="utf-8")))


def table(results: Results) -> str:
    """The bare loop's value of each work, and how many times as much the others take."""
    sides = [name for name in results.sides if name != "bare"]
    lines = [
        "| | bare loop | " + " | ".join(SIDES[name] for name in sides) + " |",
        "|---|" + "---|" * (len(sides) + 1),
    ]
    for row in FULL:
        sizes = [count for case, count in results.cells() if case == row.case]
        for count in sizes:
            if count in row.drawn and count < sizes[-1]:
                continue
            case = row.case
            many = count > 1 and row.case not in ("first", "tools", "ahead")
            title = f"{row.title}, {count:,}" if many else row.title
            bare = results.median(case, count, "bare")
            first = "-" if bare is None else f"{short(bare) if bare else '0'} {row.unit}".strip()
            cells = [_cell(results, case, count, name, bare if row.shown == "ratio" else None) for name in sides]
            lines.append("| " + " | ".join([title, first, *cells]) + " |")
            if case == "start" and (core := results.median(case, count, CORE)) and bare:
                others = ["-" for name in sides if name != "engine"]
                lines.append(
                    "| " + " | ".join(["import, without extras", first, f"{short(core / bare)}x", *others]) + " |"
                )
    return "\n".join(lines)


def _cell(results: Results, case: str, count: int, side: str, bare: float | None) -> str:
    value = results.median(case, count, side)
    if value is None:
        return results.skipped(case, count, side) or "-"
    if bare:
        return f"{short(value / bare)}x"
    return short(value) if value > 0 else "0"


def versions(results: Results) -> str:
    """What was measured, where and when."""
    named = ", ".join(f"{package} {version}" for each in results.versions.values() for package, version in each.items())
    form = "a short form on a busy machine" if results.quick else f"{results.rounds} rounds"
    return f"Python {results.python}, {results.machine}, {results.date}, {form}: {named}."


def profile(results: Results) -> str:
    """What a turn and an agent of the engine consist of."""
    titles = {
        "calls_a_turn": "Python calls a turn",
        "calls_a_chunk": "Python calls a chunk",
        "tasks_a_turn": "tasks a turn",
        "objects_an_agent": "objects an agent that the collector tracks, while its model answers",
    }
    rows = [f"| {titles[name]} | {short(value)} |" for name, value in results.profile.items()]
    return "\n".join(["| | agentscope_rx |", "|---|---|", *rows])


def pictures(results: Results) -> Iterator[tuple[str, str]]:
    """The pictures, each with the name of its file."""
    for row in FULL:
        if not row.plotted:
            continue
        lines = [
            Line(SIDES[side], results.line(row.case, side), bold=side == "engine", dashed=side == "bare")
            for side in results.sides
        ]
        title = f"CPU time of {row.title.replace('`', '')}"
        yield f"performance-{row.case}.svg", chart(title, row.plotted, "microseconds of CPU", lines)


def written(page: str, results: Results) -> str:
    """The page with these results."""
    for name, text in (("table", table(results)), ("versions", versions(results)), ("profile", profile(results))):
        block = re.compile(rf"(<!-- {name} -->\n\n).*?(\n\n<!-- end -->)", re.S)
        page, found = block.subn(lambda match, text=text: f"{match[1]}{text}{match[2]}", page)
        if found != 1:
            raise ValueError(f"The page needs one block <!-- {name} --> ... <!-- end -->")
    return page


def main() -> None:
    """Write tables and pictures anew."""
    results = load()
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    for name, text in pictures(results):
        (PICTURES / name).write_text(text, encoding="utf-8")
    print(table(results) if "--show" in sys.argv else f"{PAGE.name} and its pictures are written")


if __name__ == "__main__":
    main()
