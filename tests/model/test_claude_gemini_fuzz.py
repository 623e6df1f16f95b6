"""Anthropic's and Gemini's wires under damage: an answer is whole, or the error is one of ours; nothing else escapes.

python -m tests.model.test_claude_gemini_fuzz 600        fuzzes for so many seconds and says how many bodies it tried
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ModelError
from agentscope_rx.message import Msg
from agentscope_rx.model.anthropic import formatter as anthropic_formatter
from agentscope_rx.model.anthropic.parser import MessageParser
from agentscope_rx.model.gemini import formatter as gemini_formatter
from agentscope_rx.model.gemini.parser import ContentParser
from agentscope_rx.model.response import ChatResponse
from agentscope_rx.model.wire import encode_json
from tests.model import wired
from tests.model.test_anthropic_parser import ANSWER as CLAUDE
from tests.model.test_gemini_parser import ANSWER as GEMINI


class Wire(NamedTuple):
    make: Any
    events: list[dict[str, Any]]
    format: Any

    def send(self, message: Msg) -> None:
        """The message as it goes out again."""
        encode_json(self.format([Msg.user("a"), message, Msg.user("b")]))


WIRES = {
    "anthropic": Wire(MessageParser, CLAUDE, anthropic_formatter.format_messages),
    "gemini": Wire(ContentParser, GEMINI, gemini_formatter.format_messages),
}

every_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def same(one: list[ChatResponse], other: list[ChatResponse]) -> bool:
    first, second = wired.gathered(one), wired.gathered(other)
    return (wired.blocks(one), first.usage, first.finish_reason) == (
        wired.blocks(other),
        second.usage,
        second.finish_reason,
    )


@every_wire
@given(st.data())
def test_any_spelling_cut_anywhere_says_the_same(wire: Wire, data: st.DataObject) -> None:
    body = data.draw(wired.spellings(wire.events))
    found = wired.increments(wire.make, data.draw(wired.pieces_of(body)))
    assert same(found, wired.increments(wire.make, [wired.body_of(wire.events)]))


@every_wire
@given(st.data())
def test_what_breaks_off_is_no_answer(wire: Wire, data: st.DataObject) -> None:
    body = wired.body_of(wire.events)
    last = body.rindex(b"stop_reason" if wire.make is MessageParser else b"finishReason")
    at = data.draw(st.integers(0, last))
    with pytest.raises(ModelError):
        wired.increments(wire.make, [body[:at]])


@every_wire
@given(st.integers(min_value=0), st.integers(1, 50))
def test_damage_gives_an_answer_or_an_error_of_ours(wire: Wire, seed: int, pieces: int) -> None:
    body = wired.damaged(wired.body_of(wire.events), random.Random(seed))
    wired.check(wire.make, body, pieces, wire.send)


@every_wire
@given(st.binary(max_size=300), st.integers(1, 300))
def test_noise_gives_an_error_of_ours(wire: Wire, noise: bytes, pieces: int) -> None:
    wired.check(wire.make, noise, pieces, wire.send)


def fuzz(seconds: float) -> tuple[int, int]:
    """How many bodies were tried, and how many were taken for answers."""
    source = random.Random()
    tried = taken = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, wire in WIRES.items():
            seed = source.getrandbits(64)
            try:
                body = wired.damaged(wired.body_of(wire.events), random.Random(seed))
                taken += wired.check(wire.make, body, source.randint(1, 50), wire.send)
            except Exception:
                sys.stderr.write(f"{name}: seed {seed}\n")
                raise
            tried += 1
    return tried, taken


if __name__ == "__main__":
    tried, taken = fuzz(float(sys.argv[1]))
    sys.stdout.write(f"{tried} bodies tried, {taken} taken for answers\n")
