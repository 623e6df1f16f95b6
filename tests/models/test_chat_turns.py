"""All providers encode the same turns, so what one of them repairs, all do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ImageBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
)
from agentscope_rx.models.anthropic import formatter as anthropic
from agentscope_rx.models.dashscope import formatter as dashscope
from agentscope_rx.models.gemini import formatter as gemini
from agentscope_rx.models.ollama import formatter as ollama
from agentscope_rx.models.openai import formatter as openai
from agentscope_rx.models.openai.profiles import QWEN
from agentscope_rx.models.openai.responses.items import input_of
from agentscope_rx.models.wire.chat_turns import TurnRules, turns_of
from agentscope_rx.models.wire.json_codec import encode_json

PNG = ImageBlock(Base64Source("image/png", "iVBOR//+"))
WAV = AudioBlock(Base64Source("audio/wav", "UklGRg=="))

FORMATTERS: dict[str, Callable[[Sequence[Msg]], object]] = {
    "openai": openai.format_messages,
    "qwen": lambda messages: openai.format_messages(messages, QWEN),
    "responses": input_of,
    "anthropic": anthropic.format_messages,
    "gemini": gemini.format_messages,
    "dashscope": lambda messages: dashscope.format_turns(turns_of(messages), "text"),
    "ollama": lambda messages: ollama.format_turns(turns_of(messages)),
}
by_provider = pytest.mark.parametrize("provider", FORMATTERS)


def wire(provider: str, *messages: Msg) -> str:
    return encode_json(FORMATTERS[provider](messages))


@by_provider
def test_audio_beside_its_text_is_not_sent(provider: str) -> None:
    made = wire(provider, Msg.user("?"), Msg.assistant([TextBlock("I said so."), WAV]), Msg.user("!"))
    assert "I said so." in made
    # Gemini takes the media of its own turns
    assert ("UklGRg==" in made) is (provider == "gemini")


@by_provider
def test_cited_text_is_one_text(provider: str) -> None:
    made = wire(provider, Msg.user("?"), Msg.assistant([TextBlock("It is "), TextBlock("sunny.")]), Msg.user("!"))
    assert "It is \\nsunny." not in made
    assert "sunny." in made


@by_provider
def test_a_speaker_is_named_once_a_message(provider: str) -> None:
    made = wire(
        provider,
        Msg.user("a", name="Alice"),
        Msg.assistant([TextBlock("b"), ToolUseBlock("c1", "look"), TextBlock("d")], name="Bob"),
        Msg.tool(ToolResultBlock("c1", "look", (TextBlock("r"),))),
        Msg.assistant("e", name="Eve"),
        Msg.user("?"),
    )
    assert (made.count("Alice"), made.count("Bob"), made.count("Eve")) == (1, 1, 1)


@by_provider
def test_empty_text_and_thinking_of_a_user_are_left_out(provider: str) -> None:
    messages = [Msg.user([TextBlock(""), ThinkingBlock("secret"), TextBlock("hi")]), Msg.user("")]
    made = wire(provider, *messages)
    assert "secret" not in made
    assert made == wire(provider, Msg.user("hi"))


@by_provider
def test_a_call_of_a_user_is_refused(provider: str) -> None:
    with pytest.raises(InvalidInputError, match="user message cannot hold a tool_use"):
        FORMATTERS[provider]([Msg("user", ToolUseBlock("c", "f"), MsgRole.USER)])


def test_a_cache_mark_stands_on_the_last_result_only() -> None:
    calls = [ToolUseBlock(f"c{n}", "look") for n in range(3)]
    results = [ToolResultBlock.of(call, "r") for call in calls]
    marked = Msg("tool", results, MsgRole.TOOL, metadata={"cache_control": True})
    turns = anthropic.format_messages([Msg.user("?"), Msg.assistant(calls), marked]).turns
    assert [("cache_control" in part) for part in turns[-1].content] == [False, False, True]


def test_gemini_answers_in_the_order_of_the_calls() -> None:
    calls = [ToolUseBlock(f"c{n}", f"f{n}") for n in range(2)]
    results = [ToolResultBlock.of(call, call.id) for call in reversed(calls)]
    contents = gemini.format_messages([Msg.user("?"), Msg.assistant(calls), *(Msg.tool(r) for r in results)]).contents
    assert [json.loads(json.dumps(part))["functionResponse"]["id"] for part in contents[-1].parts] == ["c0", "c1"]


def test_rules_keep_media_where_an_api_takes_them() -> None:
    call = ToolUseBlock("c", "draw")
    messages = [
        Msg.assistant([TextBlock("so"), PNG, call]),
        Msg.tool(ToolResultBlock.of(call, [PNG, WAV])),
        Msg.user(ImageBlock(URLSource("https://x/y.png"))),
    ]
    kept = turns_of(messages, TurnRules(assistant_media=True, result_media=lambda block: block is PNG))
    assert [[block.type for block in turn.blocks] for turn in kept] == [
        ["text", "image", "tool_use"], ["image"], ["text", "audio"], ["image"],
    ]  # fmt: skip
    moved = turns_of(messages)
    assert [[block.type for block in turn.blocks] for turn in moved] == [
        ["text", "tool_use"], ["text"], ["text", "image", "text", "image", "audio"], ["image"],
    ]  # fmt: skip
    assert moved[1].call is call
