"""Half characters: replaced in text that comes from outside, refused where a caller gives a name; never kept."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import (
    Approve,
    Base64Source,
    FileBlock,
    ImageBlock,
    InvalidInputError,
    Msg,
    ReActAgent,
    Reject,
    RuntimeContext,
    TextBlock,
    ThinkingBlock,
    Toolkit,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    tool,
)
from agentscope_rx import events as kinds
from agentscope_rx.errors import ContentFilterError, McpError
from agentscope_rx.events.base import event_from_dict, event_from_json
from agentscope_rx.messages.frozen import encodable, freeze
from agentscope_rx.models import ToolUseDelta
from agentscope_rx.models.openai.parser import ChunkParser
from agentscope_rx.models.transport.status import answered_error, http_error
from agentscope_rx.testing import ScriptedModel
from tests.models import wired
from tests.tools.calling import result

HALF = "a\ud800b"
WHOLE = "a\ufffdb"

any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=6) | st.just(HALF)
json_values = st.recursive(
    any_text | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(any_text, json_values, max_size=2)


def attempted(make: Callable[..., object], *strategies: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """What can be made of these; None for what is refused as it should be."""

    def made(values: tuple[object, ...]) -> object:
        try:
            return make(*values)
        except InvalidInputError:
            return None

    return st.tuples(*strategies).map(made)


sources = attempted(URLSource, any_text) | attempted(Base64Source, any_text, any_text)
blocks = st.one_of(
    attempted(TextBlock, any_text),
    attempted(ThinkingBlock, any_text, any_text, objects),
    attempted(lambda source: ImageBlock(source or URLSource("u")), sources),
    attempted(lambda source, name: FileBlock(source or URLSource("u"), name), sources, any_text),
    attempted(ToolUseBlock, any_text, any_text, objects, any_text, any_text, objects),
    attempted(
        lambda id, name, text, metadata: ToolResultBlock(id, name, text, metadata=metadata),
        *(any_text, any_text, any_text, objects),
    ),
)
messages = attempted(
    lambda name, content, id, metadata, at: Msg(name, content, id=id, metadata=metadata, timestamp=at),
    any_text,
    st.lists(blocks.filter(bool), max_size=3),
    any_text,
    objects,
    any_text,
)
places = attempted(kinds.EventSource, any_text, any_text, st.lists(any_text, max_size=2).map(tuple))
message = messages.map(lambda found: found or Msg.user("a"))
call = blocks.map(lambda found: found if isinstance(found, ToolUseBlock) else ToolUseBlock("1", "t"))
answer = attempted(Reject, any_text, any_text) | attempted(Approve, any_text, objects)
events = st.one_of(
    attempted(
        lambda text, answers: kinds.PreCallEvent(input=(text,), answers=tuple(a for a in answers if a)),
        *(message, st.lists(answer, max_size=2)),
    ),
    attempted(lambda text, name: kinds.PostReasoningEvent(message=text, model_name=name), message, any_text),
    attempted(lambda block, id: kinds.ReasoningChunkEvent(delta=block, message_id=id), blocks, any_text),
    attempted(
        lambda within, block: kinds.OutputChunkEvent(within=within, snapshot=block),
        *(any_text, blocks),
    ),
    attempted(lambda block: kinds.PreActingEvent(tool_use=block), call),
    attempted(lambda ids, text: kinds.MemoryEvent(removed=tuple(ids), added=(text,)), st.lists(any_text), message),
    attempted(
        lambda id, *texts: kinds.RetryEvent(
            tool_use_id=id, error_type=texts[0], error_text=texts[1], model_name=texts[2]
        ),
        *(any_text, any_text, any_text, any_text),
    ),
    attempted(lambda kind, text: kinds.ErrorEvent(error_type=kind, error_text=text), any_text, any_text),
)


@given(messages)
def test_what_is_a_message_can_be_written(made: Msg | None):
    if made is not None:
        text = made.to_json()
        text.encode()
        assert Msg.from_json(text) == made
        json.dumps(made.to_dict(), ensure_ascii=False).encode()
        repr(made).encode()


@given(events, places)
def test_what_is_an_event_can_be_written(made: kinds.Event | None, place: kinds.EventSource | None):
    if made is not None:
        if place is not None:
            made = made.replace(source=place)
        text = made.to_json()
        text.encode()
        assert type(event_from_json(text)) is type(made)
        json.dumps(made.to_dict(), ensure_ascii=False).encode()


@given(objects)
def test_what_is_frozen_can_be_encoded(value: dict[str, object]):
    json.dumps(freeze(value), ensure_ascii=False).encode()


class Name(str):
    """A str that is a class of its own."""


def test_a_subclass_of_str_is_looked_at_too():
    assert freeze({Name(HALF): [Name(HALF)]}) == {WHOLE: [WHOLE]}


REFUSED = {
    "Msg.name": lambda: Msg(HALF, ""),
    "Msg.id": lambda: Msg("a", "", id=HALF),
    "ToolUseBlock.id": lambda: ToolUseBlock(HALF, "t"),
    "ToolUseBlock.name": lambda: ToolUseBlock("1", HALF),
    "ToolResultBlock.id": lambda: ToolResultBlock(HALF, "t"),
    "ToolResultBlock.name": lambda: ToolResultBlock("1", HALF),
    "URLSource.url": lambda: URLSource(HALF),
    "Base64Source.media_type": lambda: Base64Source(HALF, "YQ=="),
    "Base64Source.data": lambda: Base64Source("image/png", HALF),
    "Approve.call_id": lambda: Approve(HALF),
    "Reject.call_id": lambda: Reject(HALF),
    "EventSource": lambda: kinds.EventSource(HALF),
    "RuntimeContext.session_id": lambda: RuntimeContext(session_id=HALF),
    "RuntimeContext.user_id": lambda: RuntimeContext(user_id=HALF),
    "name of an agent": lambda: ReActAgent(HALF, ScriptedModel("hi")),
}


@pytest.mark.parametrize("field", REFUSED)
def test_a_name_with_half_a_character_is_refused(field: str):
    with pytest.raises(InvalidInputError, match=f"{field} must be text that can be encoded") as refused:
        REFUSED[field]()
    str(refused.value).encode()


def test_text_with_half_a_character_is_replaced():
    assert ThinkingBlock("", HALF).signature == WHOLE
    assert FileBlock(URLSource("https://example.org/u"), HALF).name == WHOLE
    assert ToolUseBlock("1", "t", input_error=HALF).input_error == WHOLE
    assert Reject("1", HALF).reason == WHOLE
    assert kinds.ErrorEvent.of(ValueError(HALF)).error_text == WHOLE


def test_a_name_in_json_is_refused_and_text_is_not():
    event = {"type": "error", "error_text": HALF}
    assert event_from_dict(event).error_text == WHOLE
    assert event_from_json(json.dumps(event)).error_text == WHOLE
    for bad in ({"name": HALF, "content": []}, {"name": "a", "content": [], "id": HALF}):
        with pytest.raises(InvalidInputError, match="half character"):
            Msg.from_dict(bad)
        with pytest.raises(InvalidInputError):
            Msg.from_json(json.dumps(bad))
    read = Msg.from_dict({"name": "a", "content": [{"type": "text", "text": HALF}], "metadata": {HALF: [HALF]}})
    assert (read.text, read.metadata) == (WHOLE, {WHOLE: [WHOLE]})


def test_names_in_an_answer_are_replaced():
    model = ScriptedModel([ToolUseDelta(0, HALF, HALF, '{"a\\ud800": "\\ud800"}')], "I see.")
    events = ReActAgent("a", model).stream("go").pipe(ops.to_list()).run()
    assert json.dumps([event.to_dict() for event in events], ensure_ascii=False).encode()
    (answer,) = model.requests[1].messages[-1].tool_results
    assert answer.id == answer.name == WHOLE


def test_addresses_in_an_answer_are_replaced():
    images = [{"image_url": {"url": f"https://example.org/{HALF}"}}]
    chunk = {"choices": [{"delta": {"images": images}, "finish_reason": "stop"}]}
    (image,) = wired.blocks(wired.streamed(ChunkParser, [chunk, "[DONE]"]))
    assert image == ImageBlock(URLSource(f"https://example.org/{WHOLE}"))


def test_results_of_tools_are_replaced():
    @tool
    def names() -> str:
        """Names of files, as the system gives them."""
        return b"a\xff".decode("utf-8", "surrogateescape")

    @tool
    def structured() -> ToolResultBlock:
        """A result with more to it."""
        return ToolResultBlock("1", "t", HALF, metadata={"structured": {HALF: HALF}})

    assert result(names).text == "a\ufffd"
    found = result(structured)
    assert (found.text, found.metadata) == (WHOLE, {"structured": {WHOLE: WHOLE}})


def test_errors_of_servers_are_replaced():
    agent = ReActAgent("a", ScriptedModel(ContentFilterError(HALF)), sys_prompt=HALF, toolkit=Toolkit())
    told: list[kinds.Event] = []
    with pytest.raises(ContentFilterError):
        agent.stream("go").pipe(ops.do_action(told.append)).run()
    assert told[-1].error_text == WHOLE
    for event in told:
        event.to_json().encode()


@given(any_text)
def test_to_replace_twice_is_to_replace_once(text: str):
    assert encodable(encodable(text)) == encodable(text)


def test_the_text_of_an_error_can_be_shown():
    body = json.dumps({"error": {"message": HALF, "code": HALF}})
    error = http_error(400, body)
    assert WHOLE in str(error)
    for text in (str(error), error.body, error.code):
        text.encode()
    told = answered_error(json.loads(body))
    assert told is not None
    str(told).encode()
    str(McpError(HALF, server="s")).encode()
