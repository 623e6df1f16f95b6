"""A chart of lines on two logarithmic axes as the text of an SVG picture, with colours for light and for dark screens.

us a turn
10000 |            o  langgraph
 1000 |  o----o
  100 |  #----#----#  engine
      +--10--100--500
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 64.0, 620.0, 56.0, 352.0
LINE = 15.0
"""The least distance of two names at the ends of their lines."""

_STYLE = """
svg{font:12px system-ui,-apple-system,"Segoe UI",sans-serif}
svg{--back:#fff;--ink:#1f2328;--dim:#6e7781;--grid:#eaeef2;--c0:#57606a;--c1:#0f7b6c;--c2:#cf222e;--c3:#0969da}
svg{--c4:#8250df;--c5:#9a6700;--c6:#bf3989;--c7:#4d7c0f;--c8:#bc4c00}
@media(prefers-color-scheme:dark){svg{--back:#0d1117;--ink:#e6edf3;--dim:#8d96a0;--grid:#21262d;--c0:#8d96a0}
svg{--c1:#3fc1b0;--c2:#ff7b72;--c3:#58a6ff;--c4:#bc8cff;--c5:#e3b341;--c6:#f778ba;--c7:#a3c76d;--c8:#ffa657}}
text{fill:var(--ink)}.dim{fill:var(--dim)}.back{fill:var(--back)}.grid{stroke:var(--grid)}.end{text-anchor:end}
.mid{text-anchor:middle}.b{font-weight:600}.l{fill:none;stroke-width:1.5}.m{stroke:var(--back)}
.n{stroke-dasharray:1 3;opacity:.7}
""".strip()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the chart: its name, its points, and whether it is drawn with weight or as a yardstick."""

    name: str
    points: Mapping[float, float]
    bold: bool = False
    dashed: bool = False


def chart(title: str, across: str, up: str, lines: Sequence[Line]) -> str:
    """The chart of these lines; those without points are left out."""
    lines = [line for line in lines if line.points]
    x = _Axis([x for line in lines for x in line.points], LEFT, RIGHT, 1.0)
    y = _Axis([y for line in lines for y in line.points.values()], BOTTOM, TOP, 0.0)
    body = [
        f'<text x="14" y="22" class="b">{escape(title)}</text>',
        f'<text x="14" y="42" class="dim">{escape(up)}, logarithmic</text>',
        f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 10}" class="dim mid">{escape(across)}</text>',
        *_grid(x, y, sorted({x for line in lines for x in line.points})),
    ]
    colours = [f"var(--c{number % 9})" for number in range(len(lines))]
    # the lines of weight are drawn last, over the others
    for line, colour in sorted(zip(lines, colours, strict=True), key=lambda pair: pair[0].bold):
        body += _drawn(line, colour, x, y)
    body += _names(lines, colours, x, y)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
            *body,
            "</svg>\n",
        ]
    )


class _Axis:
    """Values to pixels, by their logarithms."""

    def __init__(self, values: Sequence[float], begin: float, end: float, tight: float) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        # a vertical axis ends at whole powers of ten, a horizontal one at its values
        self.low, self.high = (low, high) if tight else (math.floor(low), math.ceil(high))
        self.high = max(self.high, self.low + 0.1)
        self.begin, self.end = begin, end

    def __call__(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.begin + part * (self.end - self.begin), 1)

    def powers(self) -> list[float]:
        return [10.0**power for power in range(math.ceil(self.low), math.floor(self.high) + 1)]


def _grid(x: _Axis, y: _Axis, counts: Sequence[float]) -> Iterator[str]:
    for value in y.powers():
        yield f'<path class="grid" d="M{LEFT} {y(value)}H{RIGHT}"/>'
        yield f'<text x="{LEFT - 8}" y="{y(value) + 4}" class="dim end">{short(value)}</text>'
    for value in counts:
        yield f'<path class="grid" d="M{x(value)} {TOP}V{BOTTOM}"/>'
        yield f'<text x="{x(value)}" y="{BOTTOM + 18}" class="dim mid">{value:,.0f}</text>'


def _drawn(line: Line, colour: str, x: _Axis, y: _Axis) -> Iterator[str]:
    places = [(x(count), y(value)) for count, value in sorted(line.points.items())]
    width = ";stroke-width:3" if line.bold else ";stroke-dasharray:5 4" if line.dashed else ""
    path = "L".join(f"{px} {py}" for px, py in places)
    yield f'<g><title>{escape(line.name)}</title><path class="l" style="stroke:{colour}{width}" d="M{path}"/>'
    for (px, py), (count, value) in zip(places, sorted(line.points.items()), strict=True):
        tip = f"{line.name}: {short(value)} at {count:,.0f}"
        yield f'<circle class="m" style="fill:{colour}" cx="{px}" cy="{py}" r="{5 if line.bold else 4}">'
        yield f"<title>{escape(tip)}</title></circle>"
    yield "</g>"


def _names(lines: Sequence[Line], colours: Sequence[str], x: _Axis, y: _Axis) -> Iterator[str]:
    """The names beside the ends of their lines, moved apart where they would overlap, with a thin line to the end."""
    ends = [(y(line.points[max(line.points)]), n) for n, line in enumerate(lines)]
    heights: dict[int, float] = {}
    last = -math.inf
    for height, number in sorted(ends):
        last = heights[number] = max(height, last + LINE)
    over = max(0.0, last - BOTTOM)
    lowest = math.inf
    for _, number in sorted(ends, reverse=True):
        lowest = heights[number] = min(heights[number], lowest - LINE, BOTTOM if over else math.inf)
    for number, line in enumerate(lines):
        px, py = x(max(line.points)), y(line.points[max(line.points)])
        height = round(heights[number], 1)
        yield f'<path class="n" style="stroke:{colours[number]}" fill="none" d="M{px + 6} {py}L{RIGHT + 14} {height}"/>'
        weight = ' class="b"' if line.bold else ""
        yield f'<text x="{RIGHT + 18}" y="{round(height + 4, 1)}"{weight} style="fill:{colours[number]}">'
        yield f"{escape(line.name)}</text>"


def short(value: float) -> str:
    """A number with as many digits as say something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if value >= 10 else f"{value:.2g}"
