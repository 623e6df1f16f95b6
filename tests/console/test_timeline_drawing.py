"""The drawing of timelines: fixed renderings, the width of any, and texts that a terminal would obey."""

from __future__ import annotations

import io
import re
from datetime import UTC
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import Price
from agentscope_rx.console.timeline import print_timeline, timeline_of
from agentscope_rx.console.timeline.drawing import ASCII, UNICODE, Look, timeline_lines
from agentscope_rx.console.timeline.event_lines import event_line
from agentscope_rx.console.timeline.scale import Axis, cell_width, fitted, short_number, short_seconds, tick_label
from agentscope_rx.console.wording import clean
from agentscope_rx.events import (
    ActingChunkEvent,
    ErrorEvent,
    Event,
    HubEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
)
from agentscope_rx.messages import Msg, ToolResultBlock, ToolUseBlock
from tests.console.logs import at, busy_log
from tests.events.values import events as any_event

WIDE = """\
2026-09-21 14:13:20  run run1
                                           in/out   cost     time |0         |1 s        |2 s        |3 s
Friday  What is the weather in Rome?     2362/140 0.0038   4.20 s --------------------------------------------------
  1 scripted  first chunk 700 ms           812/40 0.0012   1.10 s ========######
    weather(city="Rome")                                     0 ms              #
    slow(seconds=1.0)                                      1.00 s              ############
    slow(seconds=0.5)                                      500 ms              #######
    broken()                                               500 ms              ......x  queued 500 ms; failed: Value
    call_researcher(message="Where is...   650/20 0.0009   1.90 s              ......#################  queued 500 m
       Researcher  Where is Rome?          650/20 0.0009   1.40 s                    -----------------
        1 scripted  first chunk 500 ms     300/12 0.0004   500 ms                    ======
          slow(seconds=0.6)                                600 ms                          ########
        2 scripted  first chunk 300 ms      350/8 0.0004   300 ms                                 ===#
  2 scripted  first chunk 900 ms           900/80 0.0017   1.20 s                                    !.....=====####

bars     = before the first chunk  # at work  . waiting  ! retry  x failed
time     4.20 s in 1 run: models 2.60 s, tools 2.10 s, waiting 1.50 s, at the same time 2.00 s
calls    4 model calls, 6 tool calls (1 failed), 1 retry
tokens   2,362 in (1,112 cached), 140 out (20 thinking)
cost     0.0038
slowest  scripted 1.20 s, scripted 1.10 s, slow 1.00 s, slow 600 ms, slow 500 ms"""

SMALL = """\
2026-09-21 14:13:20  run run1
                              in/out     time │0              │2 s
Friday  What is the weat... 2362/140   4.20 s ──────────────────────────────────
  1 scripted                  812/40   1.10 s ░░░░░████
    weather(city="Rome")                 0 ms         █
"""

NARROW = """\
2026-09-21 14:13:20  run run1
                                  in/out     time
Friday  What is the weather ... 2362/140   4.20 s
  1 scripted                      812/40   1.10 s
"""


def drawn(events: list[Event], **look: object) -> list[str]:
    timeline = timeline_of(events, prices={"scripted": Price(1.0, 10.0)} if look.pop("priced", False) else None)
    lines = timeline_lines(timeline, Look(zone=UTC, **look))  # type: ignore[arg-type]
    return ["".join(cell.text for cell in line).rstrip() for line in lines]


def test_a_wide_timeline():
    lines = drawn(busy_log(), width=116, glyphs=ASCII, priced=True)
    assert "\n".join(line[:116].rstrip() for line in lines) == WIDE
    assert lines[7].endswith("......x  queued 500 ms; failed: ValueError: because")


def test_a_timeline_on_80_columns():
    lines = drawn(busy_log(), width=80, notes_below=True)
    assert "\n".join(lines).startswith(SMALL)
    assert "      failed: ValueError: because" in lines
    assert "      retry, waited 500 ms: ModelConnectionError: broken pipe\\x1b[31m" in lines
    assert lines[-1] == "         slow 500 ms"


def test_a_narrow_terminal_has_no_bars():
    assert "\n".join(drawn(busy_log(), width=50)).startswith(NARROW)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6, 7, None])
def test_depth_bounds_what_is_shown(depth: int | None):
    text = "\n".join(drawn(busy_log(), depth=depth))
    deep = 9 if depth is None else depth
    assert ("round 2" in text) == (deep in (2, 5)) and ("weather(" in text) == (deep >= 3)
    assert ("Researcher" in text) == (deep >= 4) and ("slow(seconds=0.6)" in text) == (deep >= 6)


@settings(max_examples=60, deadline=None)
@given(st.integers(20, 250), st.integers(0, 60), st.booleans())
def test_lines_fit_on_any_width(width: int, count: int, ascii: bool):
    for line in drawn(busy_log()[:count], width=width, notes_below=True, glyphs=ASCII if ascii else UNICODE)[1:]:
        assert cell_width(line) <= max(width, 51)


@settings(max_examples=60, deadline=None)
@given(st.lists(any_event, max_size=8), st.integers(40, 200))
def test_any_events_are_drawn_without_control_characters(events: list[Event], width: int):
    for line in [*drawn(events, width=width), *(event_line(event, 0.0) for event in events)]:
        assert clean(line) == line and "\n" not in line


def test_what_a_terminal_would_obey_is_escaped():
    evil = "a\x1b[2J\x07\u202eb\nc"
    seen = [
        at(0, PreCallEvent, evil, agent=evil, input=(Msg.user(evil),)),
        at(0, PreReasoningEvent, evil, agent=evil, model_name=evil),
        at(1, PreActingEvent, evil, agent=evil, tool_use=ToolUseBlock(evil, evil, {evil: evil})),
        at(1, HubEvent, evil, agent=evil, hub=evil, member=evil, heard_by=(evil,)),
        at(2, ErrorEvent, evil, agent=evil, error_type=evil, error_text=evil),
    ]
    for line in [*drawn(seen), *(event_line(event, 0.0) for event in seen)]:
        assert not set("\x1b\x07\u202e\n") & set(line)


def test_runs_at_the_same_time_share_an_axis():
    seen = [at(0, PreCallEvent, "a"), at(1, PreCallEvent, "b"), at(2, ErrorEvent, "a"), at(4, ErrorEvent, "b")]
    seen += [at(3600, PreCallEvent, "c"), at(3601, ErrorEvent, "c")]
    lines = drawn(seen, glyphs=ASCII, width=70)
    assert (
        lines[0].endswith("  2 runs") and "-- 59m 56s later" in lines and any(line.endswith("run c") for line in lines)
    )
    assert len([line for line in lines if " time |" in line]) == 2


def test_waits_too_short_to_matter_have_no_words():
    use = ToolUseBlock("c", "work")
    result = {"tool_use": use, "chunk": ToolResultBlock("c", "work", "x"), "is_last": True}
    for queued, shown in ((0.0002, False), (0.2, True)):
        seen = [
            at(0, PreCallEvent),
            at(0, PreActingEvent, tool_use=use),
            at(1, ActingChunkEvent, queued=queued, **result),
        ]
        text = "\n".join(drawn(seen))
        assert ("queued" in text) == ("waiting" in text) == shown


def test_a_file_without_these_characters_gets_others():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_timeline(timeline_of(busy_log()), file, width=80)
    file.flush()
    assert isinstance(file.buffer, io.BytesIO) and b"#####" in file.buffer.getvalue()


def test_colours_change_only_the_colours():
    plain, colored = io.StringIO(), io.StringIO()
    print_timeline(timeline_of(busy_log()), plain, width=100, color=False)
    print_timeline(timeline_of(busy_log()), colored, width=100, color=True)
    assert "\x1b[" in colored.getvalue() and "\x1b[" not in plain.getvalue()
    assert re.sub("\x1b\\[[0-9;]*m", "", colored.getvalue()).split() == plain.getvalue().split()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 ms"), (0.41, "410 ms"), (1.1, "1.10 s"), (9.996, "10.0 s"), (99.96, "1m 40s"), (7380, "2h 03m")],
)
def test_short_times(value: float, text: str):
    assert short_seconds(value) == text


def test_short_numbers():
    assert [short_number(each) for each in (812, 12_345, 123_456, 1_234_567)] == ["812", "12.3k", "123k", "1.2M"]


@given(st.floats(1e-6, 1e9), st.integers(20, 200))
def test_ticks_are_at_round_numbers_and_apart(span: float, columns: int):
    ticks = Axis(0.0, span, columns).ticks()
    assert len(ticks) <= columns / 10 + 1 and (not ticks or ticks[0] == (0, "0", 0.0))
    for one, after in pairwise(ticks):
        assert after.column - one.column > len(one.label)
    assert len({tick.label for tick in ticks}) == len(ticks)


def test_labels_of_ticks():
    assert [tick_label(0.2, 0.2), tick_label(90, 30), tick_label(120, 60), tick_label(7200, 3600)] == [
        "0.2 s",
        "1:30 min",
        "2 min",
        "2 h",
    ]


@given(st.text(max_size=12), st.integers(0, 12))
def test_fitted_texts_have_their_width(text: str, columns: int):
    assert cell_width(fitted(text, columns)) == columns
