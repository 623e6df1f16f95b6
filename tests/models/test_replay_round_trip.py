"""Recorded answers of real providers, sent back: what came is what the next request says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from agentscope_rx.errors import ContentFilterError
from agentscope_rx.messages import Msg
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.anthropic import formatter as anthropic
from agentscope_rx.models.anthropic.parser import MessageParser
from agentscope_rx.models.dashscope import formatter as dashscope
from agentscope_rx.models.dashscope.parser import DashScopeParser
from agentscope_rx.models.gemini import formatter as gemini
from agentscope_rx.models.gemini.parser import ContentParser
from agentscope_rx.models.ollama import formatter as ollama
from agentscope_rx.models.ollama.parser import OllamaParser
from agentscope_rx.models.openai import formatter as openai
from agentscope_rx.models.openai.parser import ChunkParser
from agentscope_rx.models.openai.profiles import GENERIC
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.transport.framing import read_events, read_lines
from agentscope_rx.models.wire.chat_turns import turns_of

RECORDINGS = Path(__file__).resolve().parents[2].parent / "shared" / "replay" / "recordings"

pytestmark = pytest.mark.skipif(not RECORDINGS.exists(), reason="the recordings (../shared/replay) are not here")

Wire = list[Any]


class Api(NamedTuple):
    """How an API's answers are read, written again, and what of the answer has to come back."""

    parser: Callable[[dict[str, Any]], Callable[[Callable[[], float]], Any]]
    send: Callable[[Msg], Wire]
    came: Callable[[dict[str, Any], list[Any]], Wire]
    lines: bool = False


class _Bytes(httpx.AsyncByteStream):
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


async def events_of(body: str, lines: bool) -> list[ServerEvent]:
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Bytes(body.encode()))
    return [event async for event in (read_lines if lines else read_events)(response)]


def answer_of(recording: dict[str, Any], api: Api) -> tuple[Msg, list[Any]]:
    """The message that an agent remembers, and the answer's JSON values."""
    parser, gather = api.parser(recording)(lambda: 0.0), ResponseAccumulator()
    body = recording["response"]["body"]
    if recording["streaming"]:
        events = asyncio.run(events_of(body, api.lines))
        increments = [increment for event in events for increment in parser.read(event)]
        values = [json.loads(event.data) for event in events if event.data.strip() != "[DONE]"]
    else:
        values = [json.loads(body)]
        increments = list(parser.read_whole(values[0]))
    for increment in (*increments, *parser.end()):
        gather.feed(increment)
    # as a memory keeps it
    return Msg.from_json(Msg.assistant(gather.blocks()).to_json()), values


# --- Gemini: parts; those that are streamed are pieces of one text, and unsigned thoughts need not come back ---------


def _parts(parts: Iterable[dict[str, Any]]) -> Wire:
    joined: Wire = []
    for part in parts:
        signed = "thoughtSignature" in part
        if not signed and (part.get("thought") or part.get("text") == ""):
            continue
        if "functionCall" in part:
            # an id of ours is not sent
            called = {"args": {}, **part["functionCall"]}
            part = {**part, "functionCall": called}
        before = joined[-1] if joined else {}
        if set(part) == {"text"} and set(before) == {"text"}:
            joined[-1] = {"text": before["text"] + part["text"]}
        else:
            joined.append(dict(part))
    return joined


def _gemini_came(recording: dict[str, Any], values: list[Any]) -> Wire:
    responses = [each for value in values for each in (value if isinstance(value, list) else [value])]
    contents = [response["candidates"][0].get("content", {}) for response in responses if response.get("candidates")]
    return _parts(part for content in contents for part in content.get("parts", ()))


def _gemini_sent(message: Msg) -> Wire:
    contents = gemini.format_messages([Msg.user("?"), message], old=True).contents
    return _parts(part for content in contents if content.role == "model" for part in content.parts)


# --- Anthropic: blocks -----------------------------------------------------------------------------------------------


def _anthropic_came(recording: dict[str, Any], values: list[Any]) -> Wire:
    if not recording["streaming"]:
        return _blocks(values[0]["content"])
    blocks: dict[int, dict[str, Any]] = {}
    arguments: dict[int, str] = {}
    for value in values:
        if value["type"] == "content_block_start":
            blocks[value["index"]] = dict(value["content_block"])
        elif value["type"] == "content_block_delta":
            block, delta = blocks[value["index"]], value["delta"]
            for name in ("text", "thinking", "signature"):
                if name in delta:
                    block[name] = block.get(name, "") + delta[name]
            if "partial_json" in delta:
                arguments[value["index"]] = arguments.get(value["index"], "") + delta["partial_json"]
    for index, text in arguments.items():
        if text:
            blocks[index]["input"] = json.loads(text)
    return _blocks(blocks[index] for index in sorted(blocks))


def _blocks(blocks: Iterable[dict[str, Any]]) -> Wire:
    kept: Wire = []
    for block in blocks:
        if block["type"] == "text":
            if block["text"].strip():
                kept.append({"type": "text", "text": block["text"]})
        else:
            # that a call is the model's own goes without saying
            kept.append({name: value for name, value in block.items() if name != "caller" and value is not None})
    while kept and kept[-1]["type"] in anthropic.THOUGHTS:
        kept.pop()
    return kept


def _anthropic_sent(message: Msg) -> Wire:
    turns = anthropic.format_messages([Msg.user("?"), message, Msg.user("!")]).turns
    parts = json.loads(
        json.dumps([part for turn in turns if turn.role == "assistant" for part in turn.content], default=dict)
    )
    return _blocks(parts)


# --- the others: one text, one thinking, calls -----------------------------------------------------------------------


def _came(recording: dict[str, Any], values: list[Any]) -> Wire:
    expected = recording["expected"]
    calls = [(call["name"], call["args"]) for call in expected["tool_calls"] or ()]
    # a refusal is said as text
    return [expected["text"] or expected.get("refusal") or "", calls]


def _chat(wire: Sequence[Any]) -> Wire:
    assistants = [message for message in wire if message["role"] == "assistant"]
    content = assistants[0]["content"] if assistants else ""
    functions = [call["function"] for message in assistants for call in message.get("tool_calls", ())]
    called = [
        (function["name"], json.loads(given) if isinstance(given := function["arguments"], str) else dict(given))
        for function in functions
    ]
    return [content or "", called]


def _dashscope(recording: dict[str, Any]) -> Callable[[Callable[[], float]], Any]:
    asked = recording["request"]["json"]["parameters"].get("incremental_output") is True
    return partial(DashScopeParser, incremental=asked or not recording["streaming"])


APIS = {
    "openai": Api(lambda _: ChunkParser, lambda m: _chat(openai.format_messages([m], GENERIC)), _came),
    "dashscope": Api(_dashscope, lambda m: _chat(dashscope.format_turns(turns_of([m]), "text")), _came),
    "ollama": Api(lambda _: OllamaParser, lambda m: _chat(ollama.format_turns(turns_of([m]))), _came, lines=True),
    "anthropic": Api(lambda _: MessageParser, _anthropic_sent, _anthropic_came),
    "gemini": Api(lambda _: ContentParser, _gemini_sent, _gemini_came),
}


def _recordings(api: str) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in sorted(RECORDINGS.glob("*/*.json"))]
    return [each for each in found if each["api"] == api and "error" not in each["expected"]]


@pytest.mark.parametrize("api", APIS)
def test_what_came_is_what_is_sent_back(api: str) -> None:
    recordings = _recordings(api)
    assert recordings
    differing: list[str] = []
    for recording in recordings:
        try:
            message, values = answer_of(recording, APIS[api])
        except ContentFilterError:
            # nothing came
            continue
        came, sent = APIS[api].came(recording, values), APIS[api].send(message)
        if came != sent:
            differing.append(f"{recording['id']}:\n  came {came}\n  sent {sent}")
    assert not differing, "\n".join(differing)
