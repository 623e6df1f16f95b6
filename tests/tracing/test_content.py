"""The attributes that show content: their shapes, their sizes, and no secret in any of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.guardrails import Secrets
from agentscope_rx.messages import (
    ContentBlock,
    ImageBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.messages.blocks import AudioBlock, FileBlock, VideoBlock
from agentscope_rx.messages.redaction import is_secret_field, redact_secrets
from agentscope_rx.messages.sources import Base64Source, FramesSource, URLSource
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.reactive import on_dropped
from agentscope_rx.tracing.content import Content, finished

SECRETS = {
    "openai": "sk-proj-Zx9vB3nM5kL7jH2gF4dS6aQ8wE1rT0yU",
    "anthropic": "sk-ant-api03-Zx9vB3nM5kL7jH2gF4dS6aQ8wE1r",
    "github": "ghp_Zx9vB3nM5kL7jH2gF4dS6aQ8wE1rT0yUiOpA",
    "github fine-grained": "github_pat_11ABCDEFG0Zx9vB3nM5kL7jH_2gF4dS6aQ8",
    "gitlab": "glpat-Zx9vB3nM5kL7jH2gF4dS",
    "aws": "AKIAIOSFODNN7QWERTYU",
    "google": "AIzaSyZx9vB3nM5kL7jH2gF4dS6aQ8wE1rT0yUi",
    "slack": "xoxb-123456789012-abcdefZx9vB3nM5k",
    "hugging face": "hf_Zx9vB3nM5kL7jH2gF4dS6aQ8wE1rT0yU",
    "stripe": "sk_live_Zx9vB3nM5kL7jH2gF4dS6aQ8",
    "npm": "npm_Zx9vB3nM5kL7jH2gF4dS6aQ8wE1rT0yUiOpA",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.Zx9vB3nM5kL7jH2gF4dS6aQ8wE1rT0yUiOpAsDfGhJk",
    "private key": "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEAZx9vB3nM5kL7\njH2gF4dS\n-----END PRIVATE KEY-----",
}
CORES = {kind: secret.splitlines()[1] if "\n" in secret else secret for kind, secret in SECRETS.items()}
"""What must not be seen: of a private key a line within."""

PLACED = {
    "header": ("Authorization: Basic {}", "dXNlcjpodW50ZXIyMg=="),
    "bearer": ("curl -H 'authorization: Bearer {}'", "opaque.token-value_123"),
    "cookie": ("Cookie: session={}; theme=dark", "q1w2e3r4t5"),
    "json": ('{{"user": "ada", "password": "{}"}}', "correct horse"),
    "assignment": ("API_KEY={}", "qwertyuiop123"),
    "yaml": ("client_secret: {}", "qwertyuiop123"),
    "url": ("postgres://ada:{}@db.example.com/x", "hunter2!"),
    "query": ("https://x.blob.example.com/a?se=2030&sig={}", "abc%2Bdef123"),
    "amazon": ("https://s3.example.com/a?X-Amz-Signature={}&x=1", "0123456789abcdef"),
}


def values(attributes: dict[str, str], name: str) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", json.loads(attributes[name]))


def test_request_has_the_shape_of_the_conventions() -> None:
    call = ToolUseBlock("c1", "search", {"q": "tea"})
    history = [
        Msg("system", "Be brief.", MsgRole.SYSTEM),
        Msg("ada", "Hello"),
        Msg("bot", [ThinkingBlock("hm", "signature"), call], MsgRole.ASSISTANT),
        Msg("bot", ToolResultBlock("c1", "search", "green"), MsgRole.TOOL),  # pyright: ignore[reportArgumentType]
    ]
    tools = [ToolSchema("search", "Finds.", {"type": "object", "properties": {"password": {"type": "string"}}})]
    found = Content().of_request(history, tools)
    assert values(found, "gen_ai.system_instructions") == [{"type": "text", "content": "Be brief."}]
    assert values(found, "gen_ai.input.messages") == [
        {"role": "user", "parts": [{"type": "text", "content": "Hello"}], "name": "ada"},
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "tea"}},
            ],
            "name": "bot",
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "green"}], "name": "bot"},
    ]
    assert values(found, "gen_ai.tool.definitions") == [
        {"type": "function", "name": "search", "description": "Finds.", "parameters": tools[0].parameters}
    ]
    assert "signature" not in str(found)


def test_answer_has_its_finish_reason() -> None:
    found = Content().of_answer([TextBlock("Tea.")], finished("tool_calls"), "bot")
    message = {"role": "assistant", "parts": [{"type": "text", "content": "Tea."}], "finish_reason": "tool_call"}
    assert values(found, "gen_ai.output.messages") == [message | {"name": "bot"}]
    assert (finished("stop"), finished("other"), finished(None)) == ("stop", "stop", "error")


def test_media_are_named_and_not_included() -> None:
    data = Base64Source.of(b"\x89PNG" * 1000, "image/png")
    blocks: Sequence[ContentBlock] = [
        ImageBlock(data),
        ImageBlock(URLSource("data:image/png;base64," + data.data)),
        AudioBlock(URLSource("https://example.com/a.mp3?token=abcdefgh123")),
        VideoBlock(FramesSource((data, data))),
        FileBlock(Base64Source("application/pdf", "not base64!")),
    ]
    text = Content().of_messages("x", [Msg("ada", blocks)])["x"]
    assert data.data[:40] not in text
    parts = cast("list[dict[str, str]]", json.loads(text)[0]["parts"])
    assert [part["modality"] for part in parts] == ["image", "image", "audio", "image", "image", "document"]
    assert parts[0] == parts[1] == parts[3]
    assert parts[0]["uri"].startswith("ni:///sha-256;") and parts[0]["mime_type"] == "image/png"
    assert parts[2] == {
        "type": "uri",
        "modality": "audio",
        "mime_type": "audio/mpeg",
        "uri": "https://example.com/a.mp3?token=***",
    }


def test_each_kind_of_content_can_be_left_out() -> None:
    none = Content(messages=False, tools=False, definitions=False)
    history = [Msg("ada", "hello")]
    call = ToolUseBlock("c1", "search", {"q": "tea"})
    assert none.of_request(history, [ToolSchema("search", "", {})]) == {}
    assert none.of_answer([TextBlock("x")], "stop") == none.of_messages("x", history) == {}
    assert none.of_call(call) == none.of_result(ToolResultBlock.of(call, "green")) == {}
    said = Content(tools=False, reasoning=False).of_messages("x", [Msg("b", [ThinkingBlock("hm"), call], "assistant")])
    assert "tea" not in said["x"] and "hm" not in said["x"] and "search" in said["x"]


@settings(max_examples=60, deadline=None)
@given(length=st.integers(0, 40_000), most=st.integers(1, 9_000))
def test_texts_are_cut_to_their_limit(length: int, most: int) -> None:
    shown = Content(max_chars=most).text("x" * length)
    assert len(shown) <= most + len(f"... [of {length} characters]")
    assert shown == "x" * length or shown == "x" * most + f"... [of {length} characters]"


def test_newest_messages_are_kept_of_too_many() -> None:
    history = [Msg("ada", f"{n} " + "x" * 100) for n in range(100)]
    text = Content(max_total=1000).of_messages("x", history)["x"]
    shown = json.loads(text)
    assert len(text) < 1200
    assert shown[-1]["parts"][0]["content"].startswith("99 ")
    assert shown[0] == {"role": "system", "parts": [{"type": "left_out", "left_out": 100 - (len(shown) - 1)}]}
    call = ToolUseBlock("c", "f", {"a": ["x" * 100] * 100})
    arguments = Content(max_total=1000).of_call(call)["gen_ai.tool.call.arguments"]
    assert json.loads(arguments) == {"left_out": "10407 characters"}


def test_arguments_that_are_not_json_are_text() -> None:
    call = ToolUseBlock("c", "f", {}, '{"api_key": "qwertyuiop12', "it breaks off")
    assert json.loads(Content().of_call(call)["gen_ai.tool.call.arguments"]) == '{"api_key": "***'


def test_bad_limits_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_chars must be a whole number"):
        Content(max_chars=0)
    with pytest.raises(ConfigurationError, match="redact must be a function"):
        Content(redact=cast("object", "secrets"))  # pyright: ignore[reportArgumentType]


def test_failing_redactor_shows_nothing() -> None:
    def broken(text: str) -> str:
        raise ValueError(text)

    dropped: list[tuple[BaseException, str]] = []
    on_dropped(lambda error, where: dropped.append((error, where)))
    try:
        shown = Content(redact=broken).of_messages("x", [Msg("ada", "my secret")])
    finally:
        on_dropped(None)
    assert "secret" not in shown["x"]
    assert {where for _, where in dropped} == {"the redactor of traces"}


# --- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLACED)
def test_secrets_are_found_by_their_place(kind: str) -> None:
    form, secret = PLACED[kind]
    text = form.format(secret)
    assert secret not in redact_secrets(text)
    assert redact_secrets(text).count("***") == 1
    # a second pass changes nothing
    assert redact_secrets(redact_secrets(text)) == redact_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=4096, total_tokens: 12, tokenizer: cl100k",
        "The secret of a good tea is time.",
        "Sort the keys of the dictionary by name.",
        "https://example.com:8080/a/b?q=tea&page=2#top",
        "basic understanding of bearers",
        "task-force and risk-averse",
    ],
)
def test_ordinary_texts_stay(text: str) -> None:
    assert redact_secrets(text) == text


def test_fields_named_like_a_secret_are_hidden() -> None:
    names = ["api_key", "X-API-Key", "password", "authorization", "Set-Cookie", "client_secret", "accessKey", "token"]
    assert all(map(is_secret_field, names))
    assert not any(map(is_secret_field, ["max_tokens", "tokenizer", "key", "keyword", "author", "name"]))
    call = ToolUseBlock("c", "f", {"login": {"password": "pw", "user": "ada"}, "max_tokens": 5, "token": ["a", "b"]})
    shown = json.loads(Content().of_call(call)["gen_ai.tool.call.arguments"])
    assert shown == {"login": {"password": "***", "user": "ada"}, "max_tokens": 5, "token": "***"}
    schema = {"properties": {"password": {"type": "string", "default": "pw"}}}
    definitions = Content().of_request([], [ToolSchema("f", "", schema)])["gen_ai.tool.definitions"]
    assert json.loads(definitions)[0]["parameters"] == {
        "properties": {"password": {"type": "string", "default": "***"}}
    }


PAD = st.text(st.sampled_from('abc xyz\n"\\{}[]:,é😀'), max_size=60)


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(sorted(SECRETS)), before=PAD, after=PAD, most=st.integers(20, 300), data=st.data())
def test_planted_secret_is_in_no_attribute(kind: str, before: str, after: str, most: int, data: st.DataObject) -> None:
    secret, core = SECRETS[kind], CORES[kind]
    word = core if core == secret else "word"
    text = f"{before} {secret} {after}"
    content = Content(max_chars=most, max_total=data.draw(st.integers(200, 5000)))
    call = ToolUseBlock("c", "f", {"a": [text, {text: text}]})
    broken = ToolUseBlock("c", "f", {}, text, "no JSON")
    result = ToolResultBlock.of(call, text)
    media = ImageBlock(URLSource(f"https://example.com/?x={word}"))
    blocks: list[ContentBlock] = [TextBlock(text), ThinkingBlock(text), call, broken, result, media]
    schema = ToolSchema("f", text, {"enum": [text], text: {"default": text}})
    history = [Msg("s", text, "system"), Msg(word, blocks)]
    found = {
        **content.of_request(history, [schema]),
        **content.of_answer(blocks, "stop", word),
        **content.of_call(call),
        **content.of_result(result),
        "json": content.of_result(ToolResultBlock.of(call, json.dumps({"x": text})))["gen_ai.tool.call.result"],
    }
    for name, value in found.items():
        assert core not in value, name
        assert core not in json.dumps(value), name


@settings(max_examples=40, deadline=None)
@given(at=st.integers(0, 30_000), most=st.integers(10, 9_000), kind=st.sampled_from(sorted(SECRETS)))
def test_no_half_of_a_secret_at_a_cut(at: int, most: int, kind: str) -> None:
    secret = SECRETS[kind]
    text = ("x" * 9 + " ") * (at // 10) + secret + " y" * 10_000
    shown = Content(max_chars=most).text(text)
    # (a form of which less has come than its pattern needs)
    assert secret[:24] not in shown


def test_guardrails_can_be_the_redactor() -> None:
    content = Content(redact=Secrets().redacted)
    shown = content.text(f"the key is {SECRETS['openai']}, keep it")
    assert shown == "the key is [secret removed], keep it"
