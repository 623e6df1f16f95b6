"""The picture of a timeline: a small one to the letter, well-formed XML of any, and a bound on its size."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.console.timeline import Chunks, Lane, Mark, Timeline, Wait, timeline_of, timeline_svg
from agentscope_rx.console.timeline.nodes import MAX_CHUNKS, Node
from agentscope_rx.console.timeline.svg import MAX_ROWS
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event
from tests.console.logs import busy_log
from tests.events.values import events as any_event

SVG = "{http://www.w3.org/2000/svg}"


def lane(kind: str, begin: float, end: float | None, **fields: object) -> Lane:
    last = 4.0 if end is None else end
    state = fields.pop("state", "open" if end is None else "done")
    named = {"name": kind, "id": "", **fields}
    return Lane(kind=kind, begin=begin, end=end, last=last, state=state, **named)  # type: ignore[arg-type]


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)  # noqa: S314


def rows(picture: str) -> list[list[str]]:
    """The shapes of each row: the class of each path, circle, rect and sign, with its number or text."""
    found: list[list[str]] = []
    for group in parsed(picture).findall(f"{SVG}g"):
        shapes: list[str] = []
        for each in group.iter():
            kind = each.tag.removeprefix(SVG)
            if kind in ("path", "circle", "rect"):
                shapes.append(each.get("class", ""))
            elif kind == "text" and each.get("class") in ("in", "warn b"):
                shapes[-1] += f" {each.text}"
        found.append(shapes)
    return found


SMALL = """\
<g class="model"><title>model  first chunk 1.00 s</title>
<text x="14" y="51"><tspan class="m">model</tspan><tspan class="dim">  first chunk 1.00 s</tspan></text>
<text class="dim" x="235.1" y="51" text-anchor="end">4.00 s</text>
<path class="l s" d="M248.5 47H292.9"/>
<path class="l" d="M292.9 47H426"/>
<path class="t" d="M426 41v12"/>
<g><title>3 chunks</title><rect class="m" x="287.9" y="42" width="11.7" height="10" rx="5"/><text class="in" x="293.8" y="50">3</text></g>
<g><title>1 chunk</title><rect class="m" x="421" y="42" width="10" height="10" rx="5"/></g>
</g>
</svg>
"""  # noqa: E501


def test_a_small_picture():
    chunks = (Chunks(1.0, 1.0), Chunks(1.01, 1.04, 2), Chunks(4.0, 4.0))
    model = lane("model", 0.0, 4.0, chunks=chunks, marks=(Mark("first_chunk", 1.0),))
    picture = timeline_svg(Timeline(lanes=(model,)), width=454)
    shown = picture[picture.index('<g class="model">') :]
    kept, _, rest = shown.partition('\n<text class="dim" x="14"')
    assert kept + "\n</svg>\n" == SMALL and rest.endswith("</svg>\n")


def test_what_a_row_shows():
    marks = (Mark("first_chunk", 2.0), Mark("retry", 1.0, "broken pipe"))
    waits = (Wait("retry", 1.0, 1.5, "broken pipe"),)
    inside = (
        lane("model", 0.0, 2.5, marks=marks, waits=waits, chunks=(Chunks(2.0, 2.0),)),
        lane("tool", 2.5, 3.0, chunks=(Chunks(2.7, 2.7),)),
        lane("tool", 2.5, 2.6, state="failed"),
        lane("tool", 2.5, None),
        lane("job", 2.5, 2.8, state="interrupted"),
    )
    run = lane("run", 0.0, None, lanes=inside)
    assert rows(timeline_svg(Timeline(lanes=(run,)))) == [
        ["l ▸"],
        ["l s", "l", "gap", "wait", "t", "m", "warn !"],
        ["l", "m", "o"],
        ["l", "x"],
        ["l ▸"],
        ["l /"],
    ]


def test_a_run_with_much_in_it():
    picture = timeline_svg(timeline_of(busy_log()))
    texts = " ".join(parsed(picture).itertext())
    assert 'weather(city="Rome")' in texts and "2,362 in" in texts and "ModelConnectionError: broken pipe" in texts
    assert "Researcher" not in timeline_svg(timeline_of(busy_log()), depth=3)


@settings(max_examples=60, deadline=None)
@given(st.lists(any_event, max_size=8), st.integers(400, 2000))
def test_any_events_are_well_formed_xml(events: list[Event], width: int):
    parsed(timeline_svg(timeline_of(events), width=width))


@settings(max_examples=60, deadline=None)
@given(st.text(), st.floats(0, 1e9), st.lists(st.floats(0, 1e9), max_size=20))
def test_any_texts_and_times_are_well_formed_xml(text: str, end: float, times: list[float]):
    marks = tuple(Mark("retry", at, text) for at in times)
    chunks = tuple(Chunks(at, at) for at in sorted(times))
    inner = lane("tool", 0.0, end, name=text, text=text, error=text, state="failed", marks=marks, chunks=chunks)
    run = lane("run", 0.0, end, name=text, text=text, lanes=(inner,), omitted=3)
    later = lane("run", end + 1, end + 2, name=text, waits=(Wait("approval", end, end + 1, text),))
    parsed(timeline_svg(Timeline(lanes=(run, later), omitted=1)))


def test_a_long_log_is_a_picture_of_bounded_size():
    marks = tuple(Mark("retry", at / 10, "broken") for at in range(500))
    waits = tuple(Wait("queue", at / 10, at / 10 + 0.09) for at in range(500))
    chunks = tuple(Chunks(at / 3, at / 3) for at in range(128))
    calls = tuple(lane("tool", 0.0, 50.0, marks=marks, waits=waits, chunks=chunks) for _ in range(MAX_ROWS))
    runs = tuple(lane("run", 100.0 * n, 100.0 * n + 50, lanes=calls) for n in range(5))
    picture = timeline_svg(Timeline(lanes=runs))
    assert len(rows(picture)) == MAX_ROWS and f"... and {4 * (MAX_ROWS + 1) + 1} rows more" in picture
    assert len(picture) < 10_000 * MAX_ROWS


def test_many_chunks_are_kept_in_groups():
    node = Node("model", "m", "", 0.0)
    for at in range(10_001):
        node.chunk(float(at))
    kept = node.frozen(0.0, 10_000.0, priced=False).chunks
    assert len(kept) <= MAX_CHUNKS and sum(each.count for each in kept) == 10_001
    assert (kept[0].begin, kept[-1].end) == (0.0, 10_000.0)
    assert all(one.end < after.begin for one, after in pairwise(kept))


@pytest.mark.parametrize("width", [399, True])
def test_a_width_without_room_is_refused(width: int):
    with pytest.raises(ConfigurationError, match="at least 400 pixels"):
        timeline_svg(Timeline(), width=width)
