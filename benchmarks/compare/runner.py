"""Runs the measurements, each in a fresh process of the side's environment, turn about, in rounds."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.compare.plan import CORE, OURS, SIDES, Row
from benchmarks.compare.results import Cell, Results
from benchmarks.peers import MEASURED, ROOT, environment, versions

LONGEST = 20.0
"""The most seconds of CPU that a measurement may take, by the sizes before it; one that takes more is left out."""
LONG = 4.0
"""What took more seconds of CPU than this is measured in the first round only."""
TIMEOUT = 120.0
QUIET = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false", "PYTHONWARNINGS": "ignore"}


class Runner:
    """Measures cells of a plan into `results`."""

    def __init__(self, results: Results, say: Callable[[str], object] = print) -> None:
        self.results = results
        self._say = say
        self._pythons: dict[str, Path] = {}
        self._took: dict[tuple[str, str], dict[int, float]] = {}

    def prepare(self) -> None:
        """Make the environments, which downloads what is not there, and note the versions."""
        core = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
        self._pythons[CORE] = environment(CORE, core)
        for name in self.results.sides:
            if name in OURS:
                self._pythons[name] = Path(sys.executable)
                continue
            self._pythons[name] = environment(name, MEASURED[name])
            self.results.versions[name] = versions(self._pythons[name], MEASURED[name][:1])
            self._say(", ".join(f"{package} {version}" for package, version in self.results.versions[name].items()))
        self.results.python = platform.python_version()
        self.results.machine = f"{os.cpu_count()} processors, {_processor()}"
        self.results.date = datetime.now(UTC).date().isoformat()

    def run(self, plan: Sequence[Row], rounds: int) -> None:
        """So many rounds of the plan."""
        begin = time.monotonic()
        for number in range(rounds):
            for row in plan:
                if not number or not row.once:
                    self._row(row, number)
            self.results.rounds = number + 1
            self.results.minutes = round((time.monotonic() - begin) / 60, 1)
            self._say(f"round {number + 1} of {rounds}: {self.results.minutes} minutes")

    def _row(self, row: Row, number: int) -> None:
        for count in sorted({count for side in self.results.sides for count in row.sizes(side)}):
            cell = row.case, count
            sides = [side for side in self.results.sides if count in row.sizes(side)]
            if row.case == "start":
                sides.insert(2, CORE)
            # another one begins in each round
            turned = sides[number % len(sides) :] + sides[: number % len(sides)]
            for side in turned:
                self._cell(cell, side)
            self._say(f"{row.title}, {count:,}: {', '.join(self._said(cell))}")

    def _said(self, cell: Cell) -> Iterator[str]:
        for side, values in self.results.values.get(cell, {}).items():
            yield f"{SIDES.get(side, side)} {values[-1]:.4g}"

    def _cell(self, cell: Cell, side: str) -> None:
        case, count = cell
        if self.results.skipped(case, count, side) or self._took.get((case, side), {}).get(count, 0.0) > LONG:
            return
        if self._expected(cell, side) > LONGEST:
            self.results.leave_out(cell, side, "too long")
            return
        command = [self._pythons[side], "-m", "benchmarks.compare.measure", side, case, str(count)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=_environ(), capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            self.results.leave_out(cell, side, "too long")
            return
        if done.returncode:
            # another library may be unable to do it: that is a result, too
            self._say(f"{SIDES.get(side, side)} has failed: {case} {count}\n{done.stderr[-2000:]}")
            self.results.leave_out(cell, side, "failed")
            return
        found = json.loads(done.stdout.splitlines()[-1])
        self._took.setdefault((case, side), {})[count] = found["seconds"]
        self.results.add(cell, side, found["value"])

    def _expected(self, cell: Cell, side: str) -> float:
        """Seconds of CPU that it will take, by the two largest smaller sizes: linear, or as fast as it has grown."""
        case, count = cell
        known = {size: took for size, took in self._took.get((case, side), {}).items() if size < count}
        if not known:
            return 0.0
        *rest, (size, took) = sorted(known.items())
        growth = 1.0
        if rest:
            before, had_taken = rest[-1]
            growth = max(1.0, math.log(took / had_taken) / math.log(size / before))
        return took * (count / size) ** growth


def _environ() -> dict[str, str]:
    """That of this process, but compiled modules are kept: else each import would compile them again."""
    return {**{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}, **QUIET}


def _processor() -> str:
    """The name of the processor, where the system has a list."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
