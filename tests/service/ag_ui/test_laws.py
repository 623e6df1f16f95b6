"""For any run: the events keep the protocol's rules, and what the client holds in the end is what is stored."""

from __future__ import annotations

import json
from typing import Any, cast

from ag_ui.core import RunAgentInput, UserMessage
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.messages import Msg
from agentscope_rx.service.protocols.ag_ui.messages import shown_ids, shown_messages
from agentscope_rx.service.protocols.ag_ui.state import AgUiState, patch_of
from agentscope_rx.service.protocols.ag_ui.stream import AgUiStream
from agentscope_rx.service.protocols.ag_ui.transcript import Transcript
from agentscope_rx.testing import run_virtual
from tests.events.runs import Scenario, friday_of, run_of, scenarios
from tests.service.ag_ui.endpoint import Client, events_of, patched
from tests.service.ag_ui.rules import check


def recorded(scenario: Scenario) -> tuple[list[Event], list[Msg]]:
    """The events of a run, and memory after it."""
    friday = friday_of(scenario)
    seen: list[Event] = []

    async def main() -> list[Msg]:
        await run_of(friday, scenario, None, seen.append)
        return list(await friday.memory.get_memory())

    return seen, run_virtual(main())


def streamed(events: list[Event]) -> list[dict[str, Any]]:
    """The run as a client of AG-UI gets it."""
    given = [message for event in events[:1] if isinstance(event, PreCallEvent) for message in event.input]
    held: list[Any] = [UserMessage(id=message.id, content=message.text) for message in given]
    input = RunAgentInput(thread_id="t1", run_id="r1", messages=held)
    stream = AgUiStream(input, Transcript([], given, held), AgUiState())
    wire = b""
    for event in events:
        wire += stream._bytes(stream.see(event))
    try:
        wire += stream.close()
    except Exception as error:
        wire += stream.fail(error)
    return events_of(wire)


def plain(messages: list[Msg]) -> list[Any]:
    return [
        each.model_dump(mode="json", by_alias=True, exclude={"error"})
        for message in messages
        for each in shown_messages(message)
    ]


def of_the_agent(client: Client) -> list[Any]:
    """The client's messages, without those of sub-agents and with the fields that events have."""
    kept = json.loads(json.dumps([each for each in client.messages if "subagentRunId" not in each]))
    for each in kept:
        each.pop("error", None)
        if each.get("content") == "" and each["role"] == "assistant":
            del each["content"]
    return kept


@given(scenarios)
def test_any_run_keeps_the_rules_of_the_protocol(scenario: Scenario) -> None:
    seen, stored = recorded(scenario)
    assert [each.id for message in stored for each in shown_messages(message)] == [
        id for message in stored for id in shown_ids(message)
    ]
    events = streamed(seen)
    check(events)
    if events[-1]["type"] != "RUN_FINISHED":
        return
    client = Client(cast("Any", None))
    client.messages = plain([each for each in stored[:1] if each.role == "user"])
    for event in events:
        client._apply(event)
    assert sorted(of_the_agent(client), key=str) == sorted(plain(stored), key=str)


_leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False)
_json = st.recursive(
    _leaves | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~é", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(_json, _json)
def test_a_patch_makes_the_new_of_the_old(old: Any, new: Any) -> None:
    made = patched(old, patch_of(old, new))
    assert json.dumps(made, sort_keys=True) == json.dumps(new, sort_keys=True)


@given(st.lists(_json, max_size=4))
def test_a_client_follows_each_change_of_the_state(values: list[Any]) -> None:
    state, held = AgUiState(), cast("Any", {})
    for value in values:
        state.set(value)
        changes = state.take_changes()
        if changes is not None:
            snapshot, patch = changes
            held = snapshot if patch is None else patched(held, patch)
        assert json.dumps(held, sort_keys=True) == json.dumps(state.value, sort_keys=True)
    assert state.take_changes() is None
