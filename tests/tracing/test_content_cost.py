"""What content costs: each request the same, however long its history is; and nothing is kept of what has gone."""

from __future__ import annotations

import copy
import gc
import json
import pickle

from agentscope_rx import Msg, ReActAgent, Toolkit, tool
from agentscope_rx.messages import TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.redaction import redact_secrets
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tracing import Content
from agentscope_rx.tracing.json_cache import MOST, JsonCache
from tests.tracing.trees import Spans


@tool
async def look(n: int) -> str:
    """Looks."""
    return f"seen {n}"


class Counted:
    """A redactor that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> str:
        self.calls += 1
        return redact_secrets(text)


def calls_of_a_run(rounds: int) -> int:
    counted = Counted()
    spans = Spans()
    model = ScriptedModel(*((call("look", f"c{n}", n=n),) for n in range(rounds)), "Done.")
    hook = spans.hook(content=Content(redact=counted, max_total=2_000))
    agent = ReActAgent("Friday", model, toolkit=Toolkit([look]), tracer=hook, max_iters=rounds + 1)
    run_virtual(agent.call("Look around."))
    last = json.loads(str((spans.named("chat")[-1].attributes or {})["gen_ai.input.messages"]))
    assert last[-1]["parts"][0]["response"] == f"seen {rounds - 1}"
    return counted.calls


def test_a_message_is_made_into_json_once() -> None:
    fifty, hundred, more = (calls_of_a_run(rounds) for rounds in (50, 100, 150))
    assert more - hundred == hundred - fifty


def test_cached_json_goes_with_its_message() -> None:
    content = Content()
    tools = [ToolSchema("f", "A tool.", {"type": "object"})]
    history = [Msg.system("Be good."), *(Msg.user(f"{n}") for n in range(20))]
    first = content.of_request(history, tools)
    assert content.of_request(list(history), tools) == first
    assert len(content._made) == 22
    del history, tools
    gc.collect()
    assert len(content._made) == 0


def test_the_number_of_cached_texts_is_bounded() -> None:
    cache = JsonCache()
    kept = [Msg.user(f"{n}") for n in range(MOST + 10)]
    for message in kept:
        assert cache.of("x", message, lambda message=message: message.text) == message.text
    assert len(cache) <= MOST
    assert cache.of("x", kept[0], lambda: "again") == "again"
    assert cache.of("y", kept[-1], lambda: "another form") == "another form"


def test_contents_with_a_cache_are_equal_and_copied() -> None:
    content = Content(max_chars=100)
    content.of_request([message := Msg.user("hello")])
    assert content == Content(max_chars=100) and hash(content) == hash(Content(max_chars=100))
    for other in (copy.deepcopy(content), pickle.loads(pickle.dumps(content))):
        assert other == content and len(other._made) == 0
    assert len(content._made) == 1 and message.text == "hello"


def test_a_message_too_long_for_an_attribute_is_cut_further() -> None:
    calls = [ToolUseBlock(f"c{n}", "f", {}) for n in range(20)]
    message = Msg.tool([ToolResultBlock(each.id, "f", (TextBlock("x" * 8_000),)) for each in calls], "Friday")
    text = Content(max_total=20_000).of_request([Msg.user("hello"), message])["gen_ai.input.messages"]
    parts = json.loads(text)[-1]["parts"]
    assert len(text) <= 20_000 and [part["id"] for part in parts] == [each.id for each in calls]
    assert all(part["response"].endswith("... [of 8000 characters]") for part in parts)
