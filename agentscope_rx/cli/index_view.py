"""The views of indexing: a bar at a terminal, a line from time to time elsewhere, lines of JSON, or nothing.

indexing  ━━━━━━━━╸━━━━━━━  52 %  104 of 200 documents  3.1 MB/s  12.0 s left  guide/install.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from agentscope_rx.cli.exit_codes import note
from agentscope_rx.console.output import is_colorful
from agentscope_rx.console.wording import counted, one_line, seconds, shortened

if TYPE_CHECKING:
    from agentscope_rx.errors import DocumentError
    from agentscope_rx.knowledge import IndexProgress

EVERY: Final = 5.0
"""Seconds between two lines."""
NAMED: Final = 20
"""The failed documents that a summary names."""


class IndexView(Protocol):
    """Shows progress."""

    def show(self, progress: IndexProgress) -> IndexProgress: ...
    def end(self) -> None: ...


def index_view_of(*, json_lines: bool, quiet: bool, summaries: bool = False) -> IndexView:
    """The view of these flags; with `summaries` each time that the base is up to date is reported (`--watch`)."""
    if json_lines:
        return JsonView()
    if quiet:
        return QuietView(summaries)
    if is_colorful(sys.stderr):
        try:
            return BarView(summaries)
        except ImportError:
            pass
    return LineView(summaries)


class QuietView:
    """Shows what could not be indexed while a folder is followed; elsewhere it is reported at the end."""

    def __init__(self, summaries: bool = False) -> None:
        self._summaries = summaries
        self._is_first = True
        self._failed: frozenset[str] = frozenset()

    def show(self, progress: IndexProgress) -> IndexProgress:
        """The progress."""
        for line in self._news(progress)[1:]:
            note(line)
        return progress

    def _news(self, progress: IndexProgress) -> list[str]:
        """A summary, and the documents that could not be indexed, if the folder is followed and something is new."""
        if progress.phase != "watching" or not self._summaries:
            return []
        errors = [one_line(str(error), 300) for error in progress.errors]
        failed = [f"not indexed: {each}" for each in errors if each not in self._failed]
        is_news = self._is_first or progress.done or progress.removed or failed
        self._is_first, self._failed = False, frozenset(errors)
        return [summary(progress), *failed] if is_news else []

    def end(self) -> None:
        """Nothing to do."""


class JsonView(QuietView):
    """Each progress as a line of JSON on stdout; the last one is the report."""

    def show(self, progress: IndexProgress) -> IndexProgress:
        """The progress, once it is written."""
        print(json.dumps(progress.to_dict()), flush=True)
        return progress


class LineView(QuietView):
    """A line every few seconds, on stderr."""

    def __init__(self, summaries: bool) -> None:
        super().__init__(summaries)
        self._told = EVERY

    def show(self, progress: IndexProgress) -> IndexProgress:
        """The progress."""
        if progress.phase == "watching":
            self._told = EVERY
            for line in self._news(progress):
                note(line)
        elif progress.phase != "done" and progress.elapsed >= self._told:
            self._told: float = progress.elapsed + EVERY
            note(f"{progress.phase}: {', '.join(parts(progress))}")
        return progress


class BarView(QuietView):
    """A bar on stderr, which disappears at the end. Needs `rich`."""

    def __init__(self, summaries: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        super().__init__(summaries)
        text = TextColumn("{task.fields[text]}", markup=False)
        words = TextColumn("{task.description}", markup=False)
        console = Console(stderr=True)
        self._progress = Progress(words, BarColumn(16), TaskProgressColumn(), text, console=console, transient=True)
        self._task = self._progress.add_task("looking", total=None, text="")
        self._width = max(20, console.width - 36)
        self._progress.start()

    def show(self, progress: IndexProgress) -> IndexProgress:
        """The progress."""
        total, completed = None, 0
        if progress.phase == "watching":
            total, completed = 1, 1
        elif progress.phase == "indexing" and progress.bytes_total:
            total, completed = progress.bytes_total, progress.bytes_done
        text = shortened("  ".join(parts(progress)), self._width)
        self._progress.update(
            self._task,
            description=progress.phase,
            total=total,
            completed=completed,
            text=text,
        )
        for line in self._news(progress):
            self._progress.console.print(line, markup=False, highlight=False)
        return progress

    def end(self) -> None:
        """Remove the bar."""
        self._progress.stop()


def parts(progress: IndexProgress) -> list[str]:
    """The progress in words: documents, rate, time left, the document in progress."""
    known = progress.done + progress.unchanged + progress.failed
    words = [f"{known:,} of {counted(progress.found, 'document')}"]
    if progress.phase == "looking":
        words = [f"{counted(progress.found, 'document')} found"]
    if progress.rate and progress.phase == "indexing":
        words.append(f"{size(progress.rate)}/s")
        if progress.time_left is not None:
            words.append(f"{seconds(progress.time_left)} left")
    if progress.current:
        words.append(one_line(progress.current, 60))
    return words


def summary(report: IndexProgress) -> str:
    """A report on one line."""
    counts = {
        "indexed": report.done,
        "unchanged": report.unchanged,
        "removed": report.removed,
        "failed": report.failed,
    }
    words = [f"{count:,} {name}" for name, count in counts.items() if count] or ["nothing to do"]
    text = f"{counted(report.found, 'document')}: {', '.join(words)}"
    made = f"{counted(report.chunks, 'chunk')}, {size(report.bytes_done)}" if report.done else ""
    others = f"{counted(report.skipped, 'file')} of other kinds left out" if report.skipped else ""
    more = "; ".join(filter(None, (made, others)))
    return f"{text}{f' ({more})' if more else ''} in {seconds(report.elapsed)}"


def report_failures(report: IndexProgress) -> None:
    """Name what has failed, and what has no text."""
    errors: Sequence[DocumentError] = report.errors
    for error in errors[:NAMED]:
        note(f"not indexed: {one_line(str(error), 300)}")
    if report.failed > NAMED:
        note(f"not indexed: {report.failed - NAMED:,} more")
    if report.empty:
        note(f"{counted(report.empty, 'document')} without text (a scan, perhaps): nothing of it can be found")


def size(value: float) -> str:
    """`12 bytes`, `3.1 MB`."""
    if value < 1000:
        return f"{value:.0f} bytes"
    powers = {"kB": 1e3, "MB": 1e6, "GB": 1e9}
    unit = max((unit for unit, power in powers.items() if value >= power), key=powers.__getitem__)
    return f"{value / powers[unit]:.1f} {unit}"
