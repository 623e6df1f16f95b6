"""A timeline as marbles in an SVG picture: a row for each lane, time from left to right. Pure: a value to a text.

    Weather in Rome?                 0         1 s        2 s
    Friday                   2.41 s  ----------------------|
    1 gpt-5-mini             1.10 s  . . . .o--o-(5)-o|
      weather(city="Rome")   0.41 s             ---o-|

Marbles that would overlap are one that holds their number, and rows have an upper limit, so the size of the picture
has one, too. The picture needs nothing from outside, and has colours for light and for dark screens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape

from agentscope_rx.console.timeline.drawing import summary_lines
from agentscope_rx.console.timeline.rows import SHOWN, Row, clusters, extent, gap_words, rows_of
from agentscope_rx.console.timeline.scale import Axis, cell_width, fitted, short_seconds
from agentscope_rx.console.timeline.values import Lane, Timeline, Wait
from agentscope_rx.console.wording import clean, counted
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass

LEAST_WIDTH = 400
MAX_ROWS = 200
"""The most rows of a picture; those behind are counted."""
ROW = 22
MARGIN = 14
CHARACTER = 6.7
"""The width of a character of the text, in pixels: the font is monospaced."""
RADIUS = 5.0

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_STYLE = """
svg{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
svg{--back:#fff;--ink:#1f2328;--dim:#6e7781;--grid:#eaeef2;--model:#0969da;--tool:#0f7b6c;--job:#8250df;--aside:#4d7c0f;--warn:#9a6700;--bad:#cf222e}
@media(prefers-color-scheme:dark){svg{--back:#0d1117;--ink:#e6edf3;--dim:#8d96a0;--grid:#21262d;--model:#58a6ff}
svg{--tool:#3fc1b0;--job:#bc8cff;--aside:#a3c76d;--warn:#e3b341;--bad:#ff7b72}}
text{fill:var(--ink);white-space:pre}.dim{fill:var(--dim)}.in{fill:var(--back);font-size:8px;text-anchor:middle}
.back{fill:var(--back)}.grid{stroke:var(--grid)}.b{font-weight:600}.warn{fill:var(--warn)}.bad{fill:var(--bad)}
.run{--c:var(--dim)}.model{--c:var(--model)}.tool{--c:var(--tool)}.job{--c:var(--job)}.aside{--c:var(--aside)}
.m{fill:var(--c)}.o{fill:var(--back);stroke:var(--c);stroke-width:2}.l{stroke:var(--c);stroke-width:1.5}
.t{stroke:var(--c);stroke-width:2}.s{stroke-dasharray:1 4}.gap{stroke:var(--back);stroke-width:3}
.wait{stroke:var(--warn);stroke-width:3;stroke-dasharray:2 3}
.x{stroke:var(--bad);stroke-width:2}
""".strip()
_CLASSES = {"run": "run", "round": "run", "hub": "run", "model": "model", "tool": "tool", "job": "job"}
_MARKS = {"retry": "!", "error": "!", "input": "+", "message": "+", "plan": "+", "retrieval": "+", "citation": "+"}


@dataclass(frozen=True, slots=True)
class _Marble:
    """What happened from `begin` to `end`, in pixels."""

    begin: float
    end: float
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class _Frame:
    """The part of the picture that runs on one axis have."""

    axis: Axis
    left: float
    right: float
    label: int
    """The characters of a label."""

    def x(self, at: float) -> float:
        span = max(self.axis.end - self.axis.begin, 1e-6)
        part = min(1.0, max(0.0, (at - self.axis.begin) / span))
        return round(self.left + part * (self.right - self.left), 1)


def timeline_svg(timeline: Timeline, *, width: int = 960, depth: int | None = None) -> str:
    """The timeline as the text of an SVG picture, `width` pixels wide. `depth` is how deep lanes are shown (all).

    A filled marble is a chunk, or as many as the number in it says; a ring is the result of a tool; the bar ends a run
    or a call, and a cross one that failed. Thin dots are the time before the first chunk, thick ones a wait. Each row
    and marble has its text as a tooltip.
    """
    if isinstance(width, bool) or width < LEAST_WIDTH:
        raise ConfigurationError(f"The width of a picture must be at least {LEAST_WIDTH} pixels, not {width!r:.40}.")
    body, top = _panels(timeline, width, depth)
    for line in (_legend(timeline), *_sums(timeline)) if timeline.lanes else ():
        body.append(_text(MARGIN, top + 18, fitted(line, int((width - 2 * MARGIN) / CHARACTER)).rstrip(), "dim"))
        top += 16
    height = round(top + MARGIN + 4)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img">',
            f"<title>{_plain(_title(timeline))}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="back" width="{width}" height="{height}" rx="6"/>',
            *body,
            "</svg>\n",
        ]
    )


def _panels(timeline: Timeline, width: int, depth: int | None) -> tuple[list[str], float]:
    """The runs, each axis below the one before, and where they end."""
    body: list[str] = []
    label = max(20, min(44, int(width * 0.38 / CHARACTER)))
    left = MARGIN + (label + 10) * CHARACTER
    top, last = float(MARGIN), None
    room, more = MAX_ROWS, 0
    for lanes in clusters(timeline.lanes):
        rows = [row for lane in lanes for row in rows_of(lane, 1, depth, len(lanes) > 1)]
        shown = rows[:room]
        more += len(rows) - len(shown)
        if not shown:
            continue
        if last is not None:
            body.append(_text(MARGIN, top + 14, gap_words(lanes[0], last), "warn"))
            top += ROW
        last = max(map(extent, lanes))
        axis = Axis(lanes[0].begin, last, int((width - MARGIN - left) / CHARACTER))
        body += _panel(_Frame(axis, left, width - 2.0 * MARGIN, label), shown, top)
        top += ROW * (len(shown) + 1)
        room -= len(shown)
    for count, what in ((more, "row"), (timeline.omitted, "run")):
        if count:
            body.append(_text(MARGIN, top + 14, f"... and {counted(count, what)} more", "dim"))
            top += ROW
    return body, top


def _title(timeline: Timeline) -> str:
    names = ", ".join(dict.fromkeys(lane.name for lane in timeline.lanes[:5]))
    return f"A timeline of {counted(len(timeline.lanes), 'run')} of {names}" if timeline.lanes else "An empty timeline"


def _legend(timeline: Timeline) -> str:
    kinds = {mark.kind for lane in timeline.walk() for mark in lane.marks}
    words = ["● chunk, ⑤ five of them", "○ result", "| end"]
    words += ["┈ before the first chunk"] if "first_chunk" in kinds else []
    words += ["✕ failed"] if any(lane.state == "failed" for lane in timeline.walk()) else []
    words += ["! retry"] if "retry" in kinds else []
    return "   ".join(words)


def _sums(timeline: Timeline) -> Iterator[str]:
    for name, text in list(summary_lines(timeline))[:3]:
        yield f"{name.text}{text.text}"


# --- rows -------------------------------------------------------------------------------------------------------------


def _panel(frame: _Frame, rows: list[Row], top: float) -> Iterator[str]:
    bottom = top + ROW * (len(rows) + 1) - 4
    for tick in frame.axis.ticks():
        x = frame.x(frame.axis.begin + tick.seconds)
        yield f'<path class="grid" d="M{_n(x)} {_n(top + 16)}V{_n(bottom)}"/>'
        yield _text(x, top + 11, tick.label, "dim")
    for number, row in enumerate(rows, 1):
        yield from _row(frame, row, top + ROW * number + ROW / 2)


def _row(frame: _Frame, row: Row, y: float) -> Iterator[str]:
    lane = row.lane
    detail = "" if row.whole and cell_width(row.label) > frame.label else row.detail
    said = fitted(f"{row.gutter}{row.name}{detail}", frame.label).rstrip()
    head = len(row.gutter) + len(row.name)
    notes = "; ".join(note.text for note in row.notes)
    name = f'<tspan class="m{" b" if lane.kind == "run" else ""}">{_plain(said[:head])}</tspan>'
    yield f'<g class="{_CLASSES.get(lane.kind, "aside")}"><title>{_plain(f"{row.label}  {notes}".strip())}</title>'
    yield f'<text x="{MARGIN}" y="{_n(y + 4)}">{name}<tspan class="dim">{_plain(said[head:])}</tspan></text>'
    if lane.kind != "round" or lane.name:
        if lane.kind != "hub":
            yield _text(frame.left - 2 * CHARACTER, y + 4, short_seconds(lane.seconds), "dim", end=True)
        yield from _strand(frame, lane, y)
    yield "</g>"


def _strand(frame: _Frame, lane: Lane, y: float) -> Iterator[str]:
    """The line of a lane, with its marbles."""
    begin, end = frame.x(lane.begin), frame.x(lane.last)
    first = frame.x(lane.begin + lane.first_chunk) if lane.first_chunk is not None else begin
    if first > begin:
        yield f'<path class="l s" d="M{_n(begin)} {_n(y)}H{_n(first)}"/>'
    if end > first:
        yield f'<path class="l" d="M{_n(first)} {_n(y)}H{_n(end)}"/>'
    waits = (
        _Marble(frame.x(each.begin), frame.x(each.end), 1, each.text) for each in lane.waits if _inside(lane, each)
    )
    for wait in _coalesced(waits, 1.0):
        yield f'<path class="gap" d="M{_n(wait.begin)} {_n(y)}H{_n(wait.end)}"/>'
        yield f'<path class="wait" d="M{_n(wait.begin)} {_n(y)}H{_n(wait.end)}"/>'
    # a result lies above the chunks before it, and the bar of an answer below: its number stays readable
    on_top = lane.kind in ("tool", "job")
    yield from () if on_top else _end(lane, end, y)
    chunks = (_Marble(frame.x(each.begin), frame.x(each.end), each.count, "") for each in lane.chunks)
    for marble in _coalesced(chunks, 2 * RADIUS + 1):
        yield _pill(marble, y, "m", str(marble.count) if marble.count > 1 else "", counted(marble.count, "chunk"))
    yield from _end(lane, end, y) if on_top else ()
    marks = (_Marble(frame.x(each.at), frame.x(each.at), 1, each.text) for each in lane.marks if each.kind in _MARKS)
    for marble in _coalesced(marks, 2 * RADIUS + 1):
        yield _pill(marble, y, "warn", "!" if marble.count == 1 else str(marble.count), marble.text)


def _inside(lane: Lane, wait: Wait) -> bool:
    return wait.begin >= lane.begin and wait.seconds >= SHOWN


def _end(lane: Lane, x: float, y: float) -> Iterator[str]:
    if lane.state == "failed":
        yield f'<path class="x" d="M{_n(x - 4)} {_n(y - 4)}l8 8m0-8l-8 8"/>'
    elif lane.state == "done" and lane.kind in ("tool", "job"):
        yield f'<circle class="o" cx="{_n(x)}" cy="{_n(y)}" r="4"/>'
    elif lane.state == "done":
        yield f'<path class="t" d="M{_n(x)} {_n(y - 6)}v12"/>'
    else:
        sign = {"interrupted": "/", "waiting": "…", "lost": "?", "open": "▸"}[lane.state]
        yield _text(x + 3, y + 4, sign, "warn b")


def _coalesced(marbles: Iterable[_Marble], least: float) -> Iterator[_Marble]:
    """Marbles that are nearer to each other than `least` are one."""
    last: _Marble | None = None
    for marble in sorted(marbles, key=lambda each: each.begin):
        if last is not None and marble.begin - last.end < least:
            text = last.text if last.text == marble.text or last.text.endswith("...") else f"{last.text}, ..."
            last = _Marble(last.begin, max(last.end, marble.end), last.count + marble.count, text)
            continue
        if last is not None:
            yield last
        last = marble
    if last is not None:
        yield last


def _pill(marble: _Marble, y: float, style: str, inner: str, text: str) -> str:
    """A circle, or one drawn out over the time of its marbles; wide enough for its number."""
    middle = (marble.begin + marble.end) / 2
    half = max((marble.end - marble.begin) / 2 + RADIUS, RADIUS, 2.6 * len(inner) + 1.5)
    shape = (
        f'<rect class="{style}" x="{_n(middle - half)}" y="{_n(y - RADIUS)}" width="{_n(2 * half)}" '
        f'height="{_n(2 * RADIUS)}" rx="{_n(RADIUS)}"/>'
    )
    number = f'<text class="in" x="{_n(middle)}" y="{_n(y + 3)}">{_plain(inner)}</text>' if inner else ""
    return f"<g><title>{_plain(text)}</title>{shape}{number}</g>"


def _text(x: float, y: float, text: str, style: str, *, end: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ""
    return f'<text class="{style}" x="{_n(x)}" y="{_n(y)}"{anchor}>{_plain(text)}</text>'


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _plain(text: str) -> str:
    """The text as XML may hold it."""
    return escape(_NOT_XML.sub("\ufffd", clean(text)))
