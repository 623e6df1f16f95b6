"""A timeline as lines of styled text: a row for each lane, its bar on a common axis, then the sums.

    2026-10-01 12:00:00  run 3f2a9c01
                                       in/out    time  |0          |1 s        |2 s
    Friday  Weather in Rome?           1712/52  2.41 s  ---------------------------
    1  gpt-5-mini  first chunk 0.7 s    812/12  1.10 s  ======#####
       weather(city="Rome")                     0.41 s             ....####

Runs at the same time, or that follow each other at once, share an axis; a later run has an axis of its own. It knows
no terminal and writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

from agentscope_rx.console.timeline.rows import (
    ENDS,
    SHOWN,
    STYLES,
    Cell,
    Line,
    Row,
    clusters,
    extent,
    gap_words,
    left_waiting,
    rows_of,
)
from agentscope_rx.console.timeline.scale import Axis, cell_width, fitted, short_number, short_seconds
from agentscope_rx.console.timeline.values import NO_USAGE, Lane, Timeline, Totals
from agentscope_rx.console.wording import counted
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ChatUsage

MIN_BAR = 20
"""The least columns of the bars; a narrower terminal has none."""
MIN_LABEL = 16
_STATES = {"open": "no end yet", "waiting": "waits for an answer"}


class Glyphs(NamedTuple):
    """The characters of bars."""

    run: str = "─"
    work: str = "█"
    silent: str = "░"
    """A model before its first chunk."""
    wait: str = "·"
    retry: str = "!"
    message: str = "◆"
    input: str = "+"
    tick: str = "│"
    failed: str = "✗"
    interrupted: str = "/"
    waiting: str = "…"
    lost: str = "?"
    open: str = "▶"


ASCII = Glyphs("-", "#", "=", ".", "!", "*", "+", "|", "x", "/", "~", "?", ">")
UNICODE = Glyphs()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a timeline is drawn, on so many columns. `depth` is how deep lanes are shown: 1 for outermost runs alone.

    With `notes_below` waits, retries and errors are lines below their rows; otherwise they end the row, which may be
    longer than `width` then, so that a search finds them together. `zone` is that of dates, by default the system's.
    """

    width: int = 100
    depth: int | None = None
    glyphs: Glyphs = UNICODE
    notes_below: bool = False
    zone: tzinfo | None = None


@dataclass(frozen=True, slots=True)
class _Columns:
    """The widths of the columns: label, tokens, cost, time, bar; 0 for a column that is left out."""

    label: int
    tokens: int
    cost: int
    bar: int


def timeline_lines(timeline: Timeline, look: Look | None = None) -> Iterator[Line]:
    """The lines of a timeline."""
    look = look or Look()
    columns = _widths(timeline.lanes, look)
    last: float | None = None
    for lanes in clusters(timeline.lanes):
        if last is not None:
            yield from _between(lanes[0], last)
        last = max(map(extent, lanes))
        yield from _cluster(timeline, lanes, last, look, columns)
    if timeline.omitted:
        yield [Cell(f"... and {counted(timeline.omitted, 'run')} more", "dim")]
    if timeline.lanes:
        yield []
        for line in (legend(timeline, look), *summary_lines(timeline)):
            yield from _wrapped(line, look.width) if look.notes_below else [line]


def _between(lane: Lane, last: float) -> Iterator[Line]:
    yield [Cell(f"-- {gap_words(lane, last)}", "yellow" if left_waiting(lane) else "dim")]


def _cluster(timeline: Timeline, lanes: list[Lane], last: float, look: Look, columns: _Columns) -> Iterator[Line]:
    axis = Axis(lanes[0].begin, last, columns.bar or 1)
    when = date(timeline.began + axis.begin, look.zone)
    runs = [lane for lane in lanes if lane.kind == "run"]
    ids = f"run {runs[0].id}" if len(runs) == 1 else counted(len(runs), "run") if runs else ""
    yield [Cell(f"{when}  ", "dim"), Cell(ids, "bold")]
    head = " " * (columns.label + 1)
    head += f"{'in/out':>{columns.tokens}} " if columns.tokens else ""
    head += f"{'cost':>{columns.cost}} " if columns.cost else ""
    yield [Cell(f"{head}{'time':>8} {_scale(axis, look.glyphs) if columns.bar else ''}".rstrip(), "dim")]
    for lane in lanes:
        for row in rows_of(lane, 1, look.depth, len(runs) > 1):
            yield from _drawn(row, columns, axis, look)


def date(at: float, zone: tzinfo | None) -> str:
    """A date with seconds; the number if it is none."""
    try:
        return datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{at:.0f} s"


def _widths(lanes: Sequence[Lane], look: Look) -> _Columns:
    inner = [lane for top in lanes for lane in top.walk()]
    tokens = max((len(_tokens(lane.usage)) for lane in inner), default=0)
    tokens = max(6, tokens) if tokens else 0
    cost = max((len(_cost(lane.cost)) for lane in inner), default=0)
    fixed = 9 + (tokens + 1 if tokens else 0) + (cost + 1 if cost else 0)
    wanted = max((cell_width(row.label) for top in lanes for row in rows_of(top, 1, look.depth, True)), default=0)
    room = look.width - fixed - 1
    label = max(MIN_LABEL, min(wanted, room - MIN_BAR, round(room * 0.45)))
    bar = room - label
    return _Columns(label, tokens, cost, bar) if bar >= MIN_BAR else _Columns(max(room, MIN_LABEL), tokens, cost, 0)


def _scale(axis: Axis, glyphs: Glyphs) -> str:
    text = ""
    for tick in axis.ticks():
        text = text.ljust(tick.column) + glyphs.tick + tick.label
    return text


def _drawn(row: Row, columns: _Columns, axis: Axis, look: Look) -> Iterator[Line]:
    lane = row.lane
    text = row.label
    if row.whole and cell_width(text) > columns.label:
        text = f"{row.gutter}{row.name}"
    label = fitted(text, columns.label)
    # the name in the colour of its bar, as far as it is there
    edge = min(len(label), len(row.gutter) + len(row.name))
    line = [
        Cell(label[: len(row.gutter)], "dim"),
        Cell(label[len(row.gutter) : edge], _style(lane)),
        Cell(label[edge:], "dim"),
    ]
    numbers = ""
    if columns.tokens:
        numbers += f" {_tokens(lane.usage):>{columns.tokens}}"
    if columns.cost:
        numbers += f" {_cost(lane.cost) if lane.usage != NO_USAGE else '':>{columns.cost}}"
    is_step = lane.kind != "hub" and not (lane.kind == "round" and not lane.name)
    numbers += f" {short_seconds(lane.seconds) if is_step else '':>8} "
    line.append(Cell(numbers))
    if (columns.bar and is_step) or lane.kind == "hub":
        line += _bar(lane, axis, look.glyphs)
    if not look.notes_below and row.notes:
        line.append(Cell("  "))
        for position, note in enumerate(row.notes):
            line.append(Cell(f"{'; ' if position else ''}{note.text}", note.style))
    yield line
    if look.notes_below:
        for note in row.notes:
            yield [Cell(fitted(f"{' ' * len(row.gutter)}  {note.text}", look.width - 1).rstrip(), note.style)]


def _style(lane: Lane) -> str:
    return "bold" if lane.kind == "run" else STYLES.get(lane.kind, "")


def _tokens(usage: ChatUsage) -> str:
    return "" if usage.total_tokens == 0 else f"{short_number(usage.input_tokens)}/{short_number(usage.output_tokens)}"


def _cost(cost: float | None) -> str:
    return "" if cost is None else f"{cost:.4f}"


def _bar(lane: Lane, axis: Axis, glyphs: Glyphs) -> Line:
    first, behind = axis.cells(lane.begin, lane.last)
    if lane.kind in ("run", "round", "hub"):
        cells = [(glyphs.run, "dim")] * (behind - first)
    else:
        cells = [(glyphs.work, STYLES.get(lane.kind, ""))] * (behind - first)
    if lane.kind == "model":
        silent = lane.last if lane.first_chunk is None else lane.begin + lane.first_chunk
        for column in range(first, min(axis.column(silent), behind)):
            cells[column - first] = (glyphs.silent, STYLES["model"])
    for wait in lane.waits:
        if wait.begin >= lane.begin:
            begin, end = axis.column(wait.begin), axis.column(wait.end)
            for column in range(max(begin, first), min(end, behind)):
                cells[column - first] = (glyphs.wait, "yellow")
    for mark in lane.marks:
        column = axis.column(mark.at) - first
        if mark.kind in ("retry", "message", "input") and 0 <= column < len(cells):
            cells[column] = (getattr(glyphs, mark.kind), "bold yellow")
    if lane.state != "done":
        cells[-1] = (getattr(glyphs, lane.state), ENDS.get(lane.state, "bold"))
    line = [Cell(" " * first)]
    for text, style in cells:
        if line[-1].style == style and len(line) > 1:
            line[-1] = Cell(line[-1].text + text, style)
        else:
            line.append(Cell(text, style))
    return line


def legend(timeline: Timeline, look: Look) -> Line:
    """What the characters of the bars mean, of those that are there."""
    lanes = list(timeline.walk())
    states = {lane.state for lane in lanes if lane.kind != "hub"}
    marks = {mark.kind for lane in lanes for mark in lane.marks}
    glyphs = look.glyphs
    silent = any(lane.kind == "model" for lane in lanes)
    waits = any(lane.waited >= SHOWN for lane in lanes)
    words = [f"{glyphs.silent} before the first chunk"] if silent else []
    words += [f"{glyphs.work} at work"]
    words += [f"{glyphs.wait} waiting"] if waits else []
    words += [f"{getattr(glyphs, kind)} {kind}" for kind in ("retry", "message", "input") if kind in marks]
    for state in ("failed", "interrupted", "waiting", "lost", "open"):
        if state in states:
            words.append(f"{getattr(glyphs, state)} {_STATES.get(state, state)}")
    return _sum("bars", "  ".join(words))


# --- sums -------------------------------------------------------------------------------------------------------------


def summary_lines(timeline: Timeline) -> Iterator[Line]:
    """The sums of a timeline: times, tokens, costs, the slowest steps."""
    totals = timeline.totals
    yield _sum("time", f"{short_seconds(totals.elapsed)} in {_runs(timeline)}: {_times(totals)}")
    calls = [counted(totals.model_calls, "model call"), counted(totals.tool_calls, "tool call")]
    if totals.failed_calls:
        calls[-1] += f" ({totals.failed_calls:,} failed)"
    if totals.retries:
        calls.append(f"{totals.retries:,} {'retry' if totals.retries == 1 else 'retries'}")
    yield _sum("calls", ", ".join(calls))
    usage = totals.usage
    if usage.total_tokens:
        cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
        thinking = f" ({usage.reasoning_tokens:,} thinking)" if usage.reasoning_tokens else ""
        yield _sum("tokens", f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out{thinking}")
    if totals.cost is not None:
        without = f", without a price for {', '.join(totals.unpriced)}" if totals.unpriced else ""
        yield _sum("cost", f"{totals.cost:.4f}{without}")
    if totals.slowest:
        yield _sum(
            "slowest", ", ".join(f"{each.name or each.kind} {short_seconds(each.seconds)}" for each in totals.slowest)
        )
    if timeline.clock_jumps:
        yield _sum("clock", f"was set back {counted(timeline.clock_jumps, 'time')}; what follows is shifted")


def _sum(name: str, text: str) -> Line:
    return [Cell(f"{name:<9}", "dim"), Cell(text)]


def _wrapped(line: Line, width: int) -> Iterator[Line]:
    """A sum on as many lines as it needs, which end between its parts."""
    name, text = line
    rest = ""
    for part in re.split("(?<=, )|(?<=  )", text.text):
        if rest and len(rest) + len(part.rstrip()) > max(20, width - 10):
            yield [name, Cell(rest.rstrip())]
            name, rest = Cell(" " * 9), ""
        rest += part
    yield [name, Cell(rest)]


def _runs(timeline: Timeline) -> str:
    return counted(sum(lane.kind == "run" for lane in timeline.lanes) + timeline.omitted, "run")


def _times(totals: Totals) -> str:
    parts = [f"models {short_seconds(totals.models)}", f"tools {short_seconds(totals.tools)}"]
    if totals.waiting >= SHOWN:
        parts.append(f"waiting {short_seconds(totals.waiting)}")
    if totals.overlap >= SHOWN:
        parts.append(f"at the same time {short_seconds(totals.overlap)}")
    if totals.other >= SHOWN:
        parts.append(f"other {short_seconds(totals.other)}")
    if totals.between:
        parts.append(f"between runs {short_seconds(totals.between)}")
    return ", ".join(parts)
