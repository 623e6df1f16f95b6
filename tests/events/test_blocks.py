"""`BlockView`: the laws of the blocks of any run, and what each kind of event becomes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agentscope_rx import Msg
from agentscope_rx.events import (
    Event,
    StreamOptions,
    blocks,
    event_from_json,
    fold,
)
from agentscope_rx.events.blocks import BlockEvent, BlockView
from agentscope_rx.messages import (
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from agentscope_rx.models.response import ToolUseDelta
from agentscope_rx.testing import call, run_virtual
from tests.events.runs import Scenario, friday_of, run_of, scenarios
from tests.events.values import events as any_events

SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_name("agentscope2_events.json").read_text(encoding="utf-8"))
"""The JSON schema of the events of `agentscope` 2.0.10, as its pydantic models give it; `kinds` has them by type."""


@cache
def fields_of(kind: str) -> set[str]:
    """The fields of the events of this type."""
    return set(SCHEMA["$defs"][SCHEMA["kinds"][kind]]["properties"])


@cache
def _validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{SCHEMA['kinds'][kind]}", "$defs": SCHEMA["$defs"]})


def check_plain(plain: dict[str, Any]) -> None:
    """The JSON is that of an event of `agentscope`, with all of its fields."""
    kind = plain["type"]
    assert set(plain) == fields_of(kind)
    _validator(kind).validate(json.loads(json.dumps(plain)))


def view_of(events: Iterable[Event], **options: Any) -> list[BlockEvent]:
    view = BlockView(**options)
    return [made for event in events for made in view.add(event)]


def recorded(scenario: Scenario, **options: Any) -> list[Event]:
    """The events of the run, those of its sub-agents included."""
    friday = friday_of(scenario)
    seen: list[Event] = []

    async def main() -> None:
        stream = friday.stream("go", options=StreamOptions(**options)) if options else None
        await run_of(friday, scenario, stream, seen.append)

    run_virtual(main())
    return seen


class Reader:
    """Reads block events as a front end would, and checks that they come in order."""

    def __init__(self) -> None:
        self.messages: dict[str, list[list[str]]] = {}
        # a sub-agent's model may give its calls the ids that the outer one has
        self.results: dict[tuple[str, str], list[str]] = {}
        self.open: dict[tuple[str, str], list[str]] = {}
        self.running: dict[tuple[str, str], str] = {}
        self.begun: set[str] = set()
        self.ended: dict[str, str] = {}
        self.ids: set[str] = set()

    def read(self, events: Iterable[BlockEvent]) -> Reader:
        for event in events:
            self.add(event)
        return self

    def add(self, event: BlockEvent) -> None:
        check_plain(event.to_dict())
        assert event.id not in self.ids and event.reply_id not in self.ended
        self.ids.add(event.id)
        if isinstance(event, blocks.ReplyStartEvent):
            assert event.reply_id not in self.begun
            self.begun.add(event.reply_id)
        assert event.reply_id in self.begun
        step = getattr(self, event.type.lower(), None)
        if step is not None:
            step(event)

    def _start(self, event: Any, id: str, *shown: str) -> None:
        place = event.reply_id, id
        assert place not in self.open
        self.open[place] = [*shown, ""]
        self.messages.setdefault(event.metadata["message_id"], []).append(self.open[place])

    def _grow(self, event: Any, id: str, delta: str) -> None:
        assert delta, "an empty delta says nothing"
        self.open[event.reply_id, id][-1] += delta

    def text_block_start(self, event: Any) -> None:
        self._start(event, event.block_id, "text")

    def text_block_delta(self, event: Any) -> None:
        self._grow(event, event.block_id, event.delta)

    def text_block_end(self, event: Any) -> None:
        block = self.open.pop((event.reply_id, event.block_id))
        if event.text is not None:
            block[-1] = event.text

    def thinking_block_start(self, event: Any) -> None:
        self._start(event, event.block_id, "thinking")

    thinking_block_delta = text_block_delta

    def thinking_block_end(self, event: Any) -> None:
        self.open.pop((event.reply_id, event.block_id))

    def data_block_start(self, event: Any) -> None:
        self._start(event, event.block_id, "data")

    def data_block_delta(self, event: Any) -> None:
        self._grow(event, event.block_id, event.data or event.url)

    data_block_end = thinking_block_end

    def tool_call_start(self, event: Any) -> None:
        self._start(event, event.tool_call_id, "call", event.tool_call_id, event.tool_call_name)

    def tool_call_delta(self, event: Any) -> None:
        self._grow(event, event.tool_call_id, event.delta)

    def tool_call_end(self, event: Any) -> None:
        self.open.pop((event.reply_id, event.tool_call_id))

    def model_call_end(self, event: Any) -> None:
        assert not self.open or event.metadata

    def tool_result_start(self, event: Any) -> None:
        assert (event.reply_id, event.tool_call_id) not in self.running
        self.running[event.reply_id, event.tool_call_id] = ""

    def tool_result_text_delta(self, event: Any) -> None:
        self.running[event.reply_id, event.tool_call_id] += event.delta

    def tool_result_end(self, event: Any) -> None:
        place = event.reply_id, event.tool_call_id
        self.results.setdefault(place, []).append(self.running.pop(place) + "|" + event.state)

    def custom(self, event: Any) -> None:
        if event.name == "message_discarded":
            del self.messages[event.value["message_id"]]
        elif event.name == "message_replaced":
            message = Msg.from_dict(event.value["message"])
            self.messages[message.id] = shown(message)
        elif event.name == "memory":
            for each in event.value["replaced"]:
                self.messages[each["id"]] = shown(Msg.from_dict(each))
            for id in event.value["removed"]:
                self.messages.pop(id, None)

    def reply_end(self, event: Any) -> None:
        self.ended[event.reply_id] = event.finished_reason


def shown(message: Msg) -> list[list[str]]:
    """The blocks of a message as the reader has them; texts in a row are one."""
    found: list[list[str]] = []
    for block in message.content:
        if isinstance(block, TextBlock) and block.text:
            if found and found[-1][0] == "text":
                found[-1][-1] += block.text
            else:
                found.append(["text", block.text])
        elif isinstance(block, ThinkingBlock) and block.thinking:
            found.append(["thinking", block.thinking])
        elif isinstance(block, ToolUseBlock):
            found.append(
                ["call", block.id, block.name, json.dumps(dict(block.input)) if block.raw is None else block.raw]
            )
    return found


def plain(found: list[list[str]]) -> list[list[str]]:
    """The blocks with arguments in one form, and thoughts in a row as one: where one ends is not always known."""
    made: list[list[str]] = []
    for block in found:
        if block[0] == "thinking" and made and made[-1][0] == "thinking":
            made[-1] = ["thinking", made[-1][-1] + block[-1]]
            continue
        try:
            last = json.dumps(json.loads(block[-1] or "{}"), sort_keys=True) if block[0] == "call" else block[-1]
        except ValueError:
            last = block[-1]
        made.append([*block[:-1], last])
    return made


_SAME_IDS = Scenario(
    turns=[[call("call_researcher", message="find out"), ToolUseDelta(0, "1", "weather", '{"city": "Par')]],
    inner=[[ToolUseDelta(0, "1", "weather", '{"city": "Par')]],
    parallel=True,
    structured=False,
    hinted=False,
    interrupt_at=None,
)
"""A sub-agent and the agent around it run calls with the same id."""

# --- laws --------------------------------------------------------------------------------------------------------


def check(seen: list[Event]) -> None:
    """The blocks come in order, and are those of the messages that the run has added to memory."""
    reader = Reader().read(view_of(seen))
    assert not reader.open and not reader.running
    outer = seen[0].run_id
    state = fold(seen)
    assert reader.ended[outer] == "error" if state.error else reader.ended[outer] != "error"
    for message in state.history:
        if message.role == "assistant" and message.tool_calls + message.blocks(TextBlock):
            assert plain(reader.messages.get(message.id, [])) == plain(shown(message))
        for result in message.tool_results:
            text, _, state_ = reader.results[outer, result.id][-1].rpartition("|")
            assert text == "".join(block.text for block in result.output if isinstance(block, TextBlock))
            assert (state_ == "success") is (result.kind is None)


@given(scenarios)
@example(_SAME_IDS)
def test_the_blocks_of_any_run_are_those_of_its_messages(scenario: Scenario) -> None:
    check(recorded(scenario))


@given(scenarios)
def test_a_stream_of_whole_blocks_gives_the_same(scenario: Scenario) -> None:
    check(recorded(scenario, incremental=False))


@given(scenarios)
def test_events_that_were_read_from_json_give_the_same(scenario: Scenario) -> None:
    seen = recorded(scenario)
    again = [event_from_json(event.to_json()) for event in seen]
    assert [each.to_dict() for each in view_of(again)] == [each.to_dict() for each in view_of(seen)]


@given(st.lists(any_events, max_size=6))
def test_events_in_any_order_raise_nothing(events: list[Event]) -> None:
    for made in view_of(events):
        json.dumps(made.to_dict())
