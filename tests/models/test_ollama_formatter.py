"""What is asked of Ollama, and what is refused: messages, tools and options in, URL, headers and body out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentscope_rx.errors import ConfigurationError, InvalidInputError, UnsupportedOptionError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    FileBlock,
    FileSource,
    FramesSource,
    ImageBlock,
    Msg,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models import GenerateOptions, OllamaChatModel, ToolChoice, ToolSchema

PNG = Base64Source("image/png", "iVBORw==")
CALL = ToolUseBlock("c1", "f", {"city": "北京"})
TOOL = ToolSchema("f", "d", {})
SHAPE = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)


def asked(*messages: Msg, tools: Any = (), options: Any = None, **given: Any) -> Any:
    chat = OllamaChatModel("m", **given)
    return chat.exchange(messages or [Msg.user("hi")], tools, options or GenerateOptions()).request


def wire(*messages: Msg, **given: Any) -> Any:
    return json.loads(asked(*messages, **given).body)["messages"]


# --- where it is -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://ollama.com", "https://ollama.com:443/api/chat"),
        ("http://box:1/api", "http://box:1/api/chat"),
        ("http://box:1/api/chat/", "http://box:1/api/chat"),
        ("box:5000/path/", "http://box:5000/path/api/chat"),
        ("http://me:pass@box:1", "http://me:pass@box:1/api/chat"),
    ],
)
def test_the_path_is_appended(base: str, url: str) -> None:
    """(The SDK's own table of hosts is in `test_ollama_sdk`.)"""
    assert asked(base_url=base, api_key="k").url == url


@pytest.mark.parametrize("base", ["ftp://box", "http://[::1", "http://box:x", "http://box:99999"])
def test_a_host_that_is_none_is_refused(base: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        OllamaChatModel("m", base_url=base)


def test_what_is_not_given_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked().url == "http://127.0.0.1:11434/api/chat"
    assert asked().headers == {}
    monkeypatch.setenv("OLLAMA_HOST", "box")
    assert asked().url == "http://box:11434/api/chat"
    monkeypatch.setenv("OLLAMA_HOST", "https://ollama.com")
    with pytest.raises(ConfigurationError, match=r"(?s)api_key=.*OLLAMA_API_KEY"):
        OllamaChatModel("m")
    monkeypatch.setenv("OLLAMA_API_KEY", "secret")
    assert asked().headers == {"authorization": "Bearer secret"}
    assert "secret" not in repr(OllamaChatModel("m").endpoint)


def test_query_and_headers_of_ones_own_go_out() -> None:
    options = GenerateOptions(additional_query_params={"a": "1"}, additional_headers={"X-A": "b"})
    request = asked(options=options)
    assert (request.url, request.headers) == ("http://127.0.0.1:11434/api/chat?a=1", {"x-a": "b"})


# --- messages --------------------------------------------------------------------------------------------------------


def test_names_are_said_in_words() -> None:
    messages = wire(Msg.user("a", "Ann"), Msg.assistant("b", "Friday"), Msg.user("c"))
    assert [message["content"] for message in messages] == ["Ann: a", "b", "c"]


def test_an_open_call_is_answered() -> None:
    call, told = wire(Msg.assistant([CALL]))
    assert call["tool_calls"] == [{"id": "c1", "function": {"name": "f", "arguments": {"city": "北京"}}}]
    assert told == {
        "role": "tool",
        "content": "There is no result of this call yet.",
        "tool_name": "f",
        "tool_call_id": "c1",
    }


def test_the_pictures_of_a_result_follow_in_a_user_message() -> None:
    shown = ToolResultBlock.of(CALL, [ImageBlock(PNG)])
    _, told, media = wire(Msg.assistant([CALL]), Msg.tool(shown))
    assert told["content"] == "(The result is the media in the next user message.)"
    assert media == {"role": "user", "content": "Media of the result of f (c1):", "images": ["iVBORw=="]}


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (ImageBlock(URLSource("https://host/a.png")), "Fetch it"),
        (ImageBlock(FileSource("/tmp/a.png")), "was not read before"),
        (AudioBlock(PNG), "no audio. Give its transcript"),
        (VideoBlock(FramesSource((PNG,))), "no video. Send some of its frames as ImageBlocks"),
        (FileBlock(PNG), "no file. Give its text"),
        (CALL, "user message cannot hold a tool_use block"),
    ],
)
def test_what_ollama_does_not_take_is_an_error(block: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        wire(Msg.user([TextBlock("a"), block]))


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"thinking_budget": 5}, "thinking_budget"),
        ({"max_completion_tokens": 5}, "max_completion_tokens"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
    ],
)
def test_options_without_a_field_are_refused(given: dict[str, Any], option: str) -> None:
    with pytest.raises(UnsupportedOptionError, match=f"Ollama has no {option}") as caught:
        OllamaChatModel("m", options=GenerateOptions(**given))
    assert caught.value.option == option
    with pytest.raises(UnsupportedOptionError):
        asked(options=GenerateOptions(**given))


def test_a_call_cannot_be_forced() -> None:
    for choice in (ToolChoice("required"), ToolChoice.specific("f")):
        with pytest.raises(UnsupportedOptionError, match="no tool_choice") as caught:
            asked(tools=[TOOL], options=GenerateOptions(tool_choice=choice))
        assert caught.value.option == "tool_choice"
        with pytest.raises(ConfigurationError, match="there are no tools"):
            asked(options=GenerateOptions(tool_choice=choice))


def test_a_shape_and_tools_do_not_go_together() -> None:
    with pytest.raises(ConfigurationError, match="no tool could be called"):
        asked(tools=[TOOL], options=GenerateOptions(response_format=SHAPE))
    asked(tools=[TOOL], options=GenerateOptions(response_format=SHAPE, tool_choice=ToolChoice("none")))
    assert "format" not in json.loads(asked(options=GenerateOptions(response_format={"type": "text"})).body)
    for wrong in ({"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {}}):
        with pytest.raises(ConfigurationError, match="response_format is"):
            asked(options=GenerateOptions(response_format=wrong))


def test_a_shape_is_native_where_the_user_says_so() -> None:
    assert "native" not in OllamaChatModel("m").output_modes
    assert "native" in OllamaChatModel("m", native_output=True).output_modes


def test_a_server_streams_unless_told_otherwise() -> None:
    for given, streams in (({"stream": None}, True), ({"stream": False}, False), ({}, True)):
        options = GenerateOptions(additional_body_params=given)
        assert OllamaChatModel("m").exchange([Msg.user("hi")], (), options).streams is streams


def test_the_callers_own_fields_win() -> None:
    options = GenerateOptions(
        temperature=0.5, additional_body_params={"temperature": None, "think": True, "mirostat": 1, "keep_alive": None}
    )
    assert json.loads(asked(options=options, think=False, keep_alive=5, stream=False).body) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": False,
        "think": True,
        "options": {"mirostat": 1},
    }
