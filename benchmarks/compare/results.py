"""What was measured, as values and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Cell = tuple[str, int]
"""A case and its size."""


@dataclass
class Results:
    """All measurements of one run of the benchmark, round by round."""

    sides: list[str]
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    python: str = ""
    machine: str = ""
    date: str = ""
    quick: bool = False
    rounds: int = 0
    minutes: float = 0.0
    values: dict[Cell, dict[str, list[float]]] = field(default_factory=dict)
    left_out: dict[Cell, dict[str, str]] = field(default_factory=dict)
    profile: dict[str, float] = field(default_factory=dict)

    def add(self, cell: Cell, side: str, value: float) -> None:
        """Add the value of one round."""
        self.values.setdefault(cell, {}).setdefault(side, []).append(float(f"{value:.4g}"))

    def leave_out(self, cell: Cell, side: str, why: str) -> None:
        """Say why there is no value."""
        self.left_out.setdefault(cell, {})[side] = why

    def cells(self) -> list[Cell]:
        """All cells, in the order of the measurements, sizes ascending."""
        return sorted({**self.values, **self.left_out}, key=lambda cell: cell[1])

    def median(self, case: str, count: int, side: str) -> float | None:
        """The median of the rounds."""
        found = self.values.get((case, count), {}).get(side)
        return median(found) if found else None

    def skipped(self, case: str, count: int, side: str) -> str:
        """Why it was left out; '' if it was not."""
        return self.left_out.get((case, count), {}).get(side, "")

    def line(self, case: str, side: str) -> dict[float, float]:
        """The medians by size."""
        found = {count: self.median(case, count, side) for name, count in self.cells() if name == case}
        return {count: value for count, value in found.items() if value}

    def as_json(self) -> dict[str, Any]:
        """As plain JSON."""
        about = ("date", "python", "machine", "quick", "rounds", "minutes", "versions", "profile")
        measured = [
            {"case": case, "count": count, "values": self.values.get((case, count), {})}
            | ({"left_out": self.left_out[case, count]} if (case, count) in self.left_out else {})
            for case, count in {**self.values, **self.left_out}
        ]
        return {**{name: getattr(self, name) for name in about}, "sides": self.sides, "measured": measured}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Results:
        """What `as_json` has written."""
        rest = {name: value for name, value in data.items() if name != "measured"}
        results = cls(**rest)
        for each in data["measured"]:
            cell = each["case"], each["count"]
            results.values[cell] = each["values"]
            if "left_out" in each:
                results.left_out[cell] = each["left_out"]
        return results
