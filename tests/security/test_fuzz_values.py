"""Messages, events and saved state made of anything: a value, or an `InvalidInputError` that can be shown."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import InMemorySession, InvalidInputError, Msg, ReActAgent
from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.errors import SessionError
from agentscope_rx.events import Event
from agentscope_rx.events.base import event_from_dict, event_from_json
from agentscope_rx.messages.frozen import MAX_DEPTH, deeper, encodable, freeze, thaw
from agentscope_rx.service.protocols.sse_format import frame
from agentscope_rx.session.entry import EntryKind, StoredEntry, decode
from agentscope_rx.testing import ScriptedModel
from tests.events.values import events
from tests.messages.values import messages
from tests.security.wires import damaged, retyped

pytestmark = pytest.mark.fuzz

seeds = st.integers(min_value=0, max_value=2**64)


def checked(message: Msg) -> None:
    text = message.to_json()
    assert Msg.from_json(text.encode()) == message
    for block in message.content:
        assert not deeper(getattr(block, "metadata", {}), MAX_DEPTH + 1)


@given(messages, seeds)
def test_a_damaged_message_is_one_or_an_error_of_ours(message: Msg, seed: int):
    source = random.Random(seed)
    for read, given_text in (
        (Msg.from_json, damaged(message.to_json().encode(), source)),
        (Msg.from_dict, retyped(message.to_dict(), source)),
        (Msg.from_json, json.dumps(retyped(message.to_dict(), source))),
    ):
        try:
            found = read(given_text)  # pyright: ignore[reportArgumentType]
        except InvalidInputError as error:
            str(error).encode()
        else:
            checked(found)


@given(events, seeds)
def test_a_damaged_event_is_one_or_an_error_of_ours(event: Event, seed: int):
    source = random.Random(seed)
    for read, given_text in (
        (event_from_json, damaged(event.to_json().encode(), source)),
        (event_from_dict, retyped(event.to_dict(), source)),
        (event_from_json, json.dumps(retyped(event.to_dict(), source))),
    ):
        try:
            found = read(given_text)  # pyright: ignore[reportArgumentType]
        except InvalidInputError as error:
            str(error).encode()
        else:
            text = found.to_json()
            text.encode()
            assert event_from_json(text).to_json() == text


@given(events)
def test_an_event_is_one_frame(event: Event):
    data = frame(LoggedEvent.of(event))
    head, *lines = data.decode().split("\n")
    assert head == f"id: {event.seq}"
    assert lines[0] == f"event: {event.type}"
    assert [line for line in lines[1:] if not line.startswith("data: ")] == ["", ""], "nothing in it ends it early"
    assert data.endswith(b"\n\n")


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.tuples(inner, inner)
    | st.dictionaries(st.text(st.characters(codec=None, exclude_categories=()), max_size=3), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.text(max_size=3), anything, max_size=3), st.integers(0, MAX_DEPTH + 20))
def test_what_is_frozen_has_no_more_levels_than_it_may(value: dict[str, object], levels: int):
    deep: object = value
    for level in range(levels):
        deep = [deep] if level % 2 else {"a": deep}
    try:
        frozen = freeze({"x": deep})
    except InvalidInputError:
        assert deeper(deep, MAX_DEPTH)
    else:
        assert not deeper(deep, MAX_DEPTH)
        assert freeze(thaw(frozen)) == frozen
        json.dumps(frozen, ensure_ascii=False).encode()


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_text_is_made_fit_to_be_encoded(text: str):
    assert encodable(encodable(text).encode().decode()) == encodable(text)


def _saved() -> tuple[dict[str, object], list[object]]:
    session = InMemorySession()
    agent = ReActAgent("a", ScriptedModel("hi"))
    agent.call("go").run()
    agent.save(session, "k").run()
    saved = session.load_all("k").run()
    return dict(saved.values), saved.lists["memory"]


@given(seeds)
def test_damaged_state_is_loaded_whole_or_not_at_all(seed: int):
    source = random.Random(seed)
    values, memory = _saved()
    state, history = retyped(values, source), retyped(memory, source)
    session = InMemorySession()
    # as an attacker with access to the store would write it: no save has checked it
    entries = {
        "state": StoredEntry(EntryKind.VALUE, (json.dumps(state.get("state")).encode(),)),
        "memory": StoredEntry(EntryKind.LIST, tuple(json.dumps(item).encode() for item in history)),
    }
    session._put("k", session._state("k"), entries)
    agent = ReActAgent("a", ScriptedModel("hi"))
    try:
        agent.load(session, "k").run()
    except SessionError as error:
        str(error).encode()
        assert agent.memory.get().run() == ()
    else:
        for message in agent.memory.get().run():
            checked(message)


@given(st.lists(st.binary(max_size=20) | seeds.map(lambda seed: damaged(b'{"a": [1, "x"]}', random.Random(seed)))))
def test_damaged_lines_are_read_or_an_error_of_ours(lines: list[bytes]):
    for kind in EntryKind:
        try:
            decode("k", {"e": StoredEntry(kind, tuple(lines))})
        except SessionError as error:
            str(error).encode()
