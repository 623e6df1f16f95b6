"""A provider on loopback with a small window: long conversations are compacted and asked about once more, for real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from agentscope_rx import InMemoryMemory, ReActAgent
from agentscope_rx.context_policy import CompactionHook, Summarize
from agentscope_rx.errors import ContextOverflowError
from agentscope_rx.events import ContextEvent, Event, RetryEvent
from agentscope_rx.models import OpenAIChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions
from tests.context_policy.parts import COUNT, FACT, conversation, marked
from tests.support.json_server import JsonServer

WINDOW = 2_600


def provider(window: int = WINDOW) -> JsonServer:
    """Counts the characters of a request, four to a token; refuses what is longer than its window."""

    def answer(path: str, body: Mapping[str, Any]) -> object:
        tokens = len(json.dumps(body["messages"])) // 4
        if tokens > window:
            text = (
                f"This model's maximum context length is {window} tokens. However, your messages resulted in "
                f"{tokens} tokens. Please reduce the length of the messages."
            )
            return 400, {"error": {"message": text, "code": "context_length_exceeded", "type": "invalid_request_error"}}
        usage = {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}
        return _written(body, said(body["messages"]), usage)

    return JsonServer(answer)


def said(messages: list[dict[str, Any]]) -> str:
    """A summary, or the fact that is sought, if the request has it."""
    texts = "\n".join(str(each.get("content")) for each in messages)
    facts = dict(FACT.findall(texts))
    if "</conversation>" not in str(messages[-1]["content"]):
        return facts.get("room3", "I do not know.")
    kept = f"- FACT room3 = {facts['room3']}" if "room3" in facts else ""
    return f"## Goal\nLook.\n## State\nLooking.\n## Facts to keep\n{kept}"


def _written(body: Mapping[str, Any], text: str, usage: Mapping[str, int]) -> object:
    about = {"id": "x", "created": 1, "model": "gpt-5-mini"}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
    chunks = [
        {**about, "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]},
        {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**about, "choices": [], "usage": usage},
    ]
    return "".join(f"data: {json.dumps(each)}\n\n" for each in [*chunks]).encode() + b"data: [DONE]\n\n"


def friday(server: JsonServer, *, stream: bool, **options) -> ReActAgent:
    model = OpenAIChatModel(
        "gpt-5-mini",
        api_key="k",
        base_url=f"{server.url}/v1",
        options=GenerateOptions(stream=stream),
        execution_config=ExecutionConfig(max_attempts=1),
    )
    hook = CompactionHook(strategies=[Summarize(max_tokens=300)], **options)
    return ReActAgent("Friday", model, "Be brief.", memory=InMemoryMemory(conversation(40)), hooks=[hook])


async def events_of(agent: ReActAgent) -> list[Event]:
    return [event async for event in agent.stream("What was in room 3?")]


@pytest.mark.parametrize("stream", [True, False])
def test_a_real_refusal_is_compacted_and_asked_once_more(stream: bool) -> None:
    with provider() as server:
        agent = friday(server, stream=stream)
        events = asyncio.run(events_of(agent))
        assert isinstance(agent.memory, InMemoryMemory) and agent.memory.messages[-1].text == "value3"
        (event,) = [each for each in events if isinstance(each, ContextEvent)]
        assert (event.cause, event.error, event.counted) == ("overflow", "", True)
        assert event.tokens_after <= WINDOW < event.tokens_before and event.usage is not None
        assert [type(each) for each in events].count(RetryEvent) == 1
        assert marked(list(agent.memory.messages))
        # the window of this model is known from now on: the next call is not refused
        before = len(server.asked)
        asyncio.run(_and_more(agent))
        asked = [len(json.dumps(each.body["messages"])) // 4 for each in server.asked[before:]]
        assert max(asked) <= WINDOW and agent.memory.messages[-1].text == "value3"


async def _and_more(agent: ReActAgent) -> None:
    await agent.memory.add(conversation(70)[81:])
    await agent.call("What was in room 3?")


@pytest.mark.parametrize("stream", [True, False])
def test_a_window_that_is_too_small_for_anything_is_an_error(stream: bool) -> None:
    with provider(window=20) as server:
        agent = friday(server, stream=stream)
        with pytest.raises(ContextOverflowError) as caught:
            asyncio.run(events_of(agent))
        assert any("compact" in note for note in caught.value.__notes__)
        assert isinstance(agent.memory, InMemoryMemory) and marked(list(agent.memory.messages)) == []


def test_with_a_budget_nothing_is_refused() -> None:
    with provider() as server:
        agent = friday(server, stream=True, max_tokens=WINDOW)
        events = asyncio.run(events_of(agent))
        assert not [each for each in events if isinstance(each, RetryEvent)]
        assert COUNT.count(agent.memory.messages) > WINDOW  # pyright: ignore
