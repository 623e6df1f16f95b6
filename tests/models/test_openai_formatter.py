"""The formatter as tables: messages, tools and options in, the body of the request out."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    FileBlock,
    FileSource,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models.openai.formatter import format_messages
from agentscope_rx.models.openai.profile import Profile
from agentscope_rx.models.openai.profiles import GENERIC, OPENAI
from agentscope_rx.models.openai.request import format_request, format_tool
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.models.wire.media import has_files, read_files
from agentscope_rx.models.wire.pairing import NO_RESULT

PNG = Base64Source("image/png", "AA==")
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
CALL = ToolUseBlock("c1", "f", {"city": "\u5317\u4eac"})
WIRE_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"city":"\u5317\u4eac"}'}}
SECOND, THIRD = ToolUseBlock("c2", "f"), ToolUseBlock("c3", "f")
WIRE_SECOND = {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}}
UNANSWERED = {"role": "tool", "tool_call_id": "c1", "content": NO_RESULT}


def words(value: str) -> dict[str, object]:
    return {"type": "text", "text": value}


def result(*output: Any, id: str = "c1", kind: ToolResultKind | None = None) -> ToolResultBlock:
    return ToolResultBlock(id, "f", tuple(output), kind)


MESSAGES: dict[str, tuple[list[Msg], list[dict[str, object]]]] = {
    "one of each": (
        [Msg.system("be kind"), Msg.user("hi"), Msg.assistant("hello")],
        [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
        ],
    ),
    "names": (
        [
            Msg.user("a", "Ada L."),
            Msg.assistant("b", "<Bob\\>|x"),
            Msg.user("c", "\u6797"),
            Msg.user("d", " "),
            Msg.user("e", "x" * 99),
        ],
        [
            {"role": "user", "content": "a", "name": "Ada_L."},
            {"role": "assistant", "content": "b", "name": "_Bob_x"},
            {"role": "user", "content": "c", "name": "\u6797"},
            {"role": "user", "content": "d"},
            {"role": "user", "content": "e", "name": "x" * 64},
        ],
    ),
    "several texts are one": (
        [Msg.user([TextBlock("a"), TextBlock("b")])],
        [{"role": "user", "content": "a\nb"}],
    ),
    "media are parts, in order": (
        [Msg.user([TextBlock("a"), ImageBlock(PNG), TextBlock("b"), ImageBlock(URLSource("https://x/y.png"))])],
        [
            {
                "role": "user",
                "content": [
                    words("a"),
                    PICTURE,
                    words("b"),
                    {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                ],
            }
        ],
    ),
    "audio": (
        [
            Msg.user(
                [AudioBlock(Base64Source("audio/mpeg", "AA==")), AudioBlock(URLSource("data:audio/wav;base64,BB=="))]
            )
        ],
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}},
                    {"type": "input_audio", "input_audio": {"data": "BB==", "format": "wav"}},
                ],
            }
        ],
    ),
    "a call and its result": (
        [Msg.assistant([TextBlock("I look"), CALL]), Msg.tool(result(TextBlock("rain")))],
        [
            {"role": "assistant", "content": "I look", "tool_calls": [WIRE_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        ],
    ),
    "a call without words": (
        [Msg.assistant(CALL)],
        [{"role": "assistant", "content": None, "tool_calls": [WIRE_CALL]}, UNANSWERED],
    ),
    "of two calls one is open, as another agent's may be": (
        [
            Msg.assistant([CALL, ToolUseBlock("c2", "f")], "Bob"),
            Msg.user("and?"),
            Msg.tool(ToolResultBlock("c2", "f", (TextBlock("rain"),))),
        ],
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [WIRE_CALL, {**WIRE_CALL, "id": "c2", "function": {"name": "f", "arguments": "{}"}}],
                "name": "Bob",
            },
            UNANSWERED,
            {"role": "tool", "tool_call_id": "c2", "content": "rain"},
            {"role": "user", "content": "and?"},
        ],
    ),
    "broken arguments do not come back": (
        [Msg.assistant(ToolUseBlock("c1", "f", raw='{"a', input_error="cut"))],
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            UNANSWERED,
        ],
    ),
    "every result is a message": (
        [
            Msg.assistant([CALL, SECOND, THIRD]),
            Msg.tool([result(TextBlock("a")), result(TextBlock("b"), id="c2"), result(id="c3")]),
        ],
        [
            {"role": "assistant", "content": None, "tool_calls": [WIRE_CALL, WIRE_SECOND, {**WIRE_SECOND, "id": "c3"}]},
            {"role": "tool", "tool_call_id": "c1", "content": "a"},
            {"role": "tool", "tool_call_id": "c2", "content": "b"},
            {"role": "tool", "tool_call_id": "c3", "content": ""},
        ],
    ),
    "results among other blocks": (
        [
            Msg.assistant(SECOND),
            Msg.user([TextBlock("go on"), result(TextBlock("a"), id="c2")]),
            Msg.assistant([CALL, result(TextBlock("b"))]),
        ],
        [
            {"role": "assistant", "content": None, "tool_calls": [WIRE_SECOND]},
            {"role": "tool", "tool_call_id": "c2", "content": "a"},
            {"role": "user", "content": "go on"},
            {"role": "assistant", "content": None, "tool_calls": [WIRE_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "b"},
        ],
    ),
    "images of results follow after the run of tool messages": (
        [
            Msg.assistant([CALL, SECOND]),
            Msg.tool(result(TextBlock("a"), ImageBlock(PNG))),
            Msg.tool(result(ImageBlock(PNG), id="c2")),
            Msg.assistant("seen"),
        ],
        [
            {"role": "assistant", "content": None, "tool_calls": [WIRE_CALL, WIRE_SECOND]},
            {"role": "tool", "tool_call_id": "c1", "content": "a"},
            {"role": "tool", "tool_call_id": "c2", "content": "(The result is the media in the next user message.)"},
            {
                "role": "user",
                "content": [
                    words("Media of the result of f (c1):"),
                    PICTURE,
                    words("Media of the result of f (c2):"),
                    PICTURE,
                ],
            },
            {"role": "assistant", "content": "seen"},
        ],
    ),
    "images of an assistant follow after the results": (
        [Msg.assistant([ImageBlock(PNG), CALL]), Msg.tool(result(TextBlock("a")))],
        [
            {"role": "assistant", "content": None, "tool_calls": [WIRE_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "a"},
            {"role": "user", "content": [words("Media of the assistant's message:"), PICTURE]},
        ],
    ),
    "what says nothing is left out": (
        [Msg.system(""), Msg.user([]), Msg.assistant(""), Msg.assistant(ThinkingBlock("hm")), Msg.tool([])],
        [],
    ),
    "thinking is not sent": (
        [Msg.assistant([ThinkingBlock("hm"), TextBlock("a")]), Msg.user([ThinkingBlock("hm"), TextBlock("b")])],
        [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}],
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages_on_the_wire(case: str) -> None:
    messages, wire = MESSAGES[case]
    assert format_messages(messages, OPENAI) == wire


def test_thinking_goes_back_to_servers_that_want_it() -> None:
    profile = GENERIC.but(reasoning="always")
    details = [{"type": "reasoning.encrypted", "data": "AA"}]
    messages = [
        Msg.assistant([ThinkingBlock("x"), ThinkingBlock("y"), CALL]),
        Msg.assistant([ThinkingBlock("x", metadata={"reasoning_details": details}), TextBlock("a")]),
        Msg.assistant(ThinkingBlock("only")),
    ]
    assert format_messages(messages, profile) == [
        {"role": "assistant", "content": None, "tool_calls": [WIRE_CALL], "reasoning_content": "xy"},
        UNANSWERED,
        {"role": "assistant", "content": "a", "reasoning_details": details},
        {"role": "assistant", "content": None, "reasoning_content": "only"},
    ]


@pytest.mark.parametrize(("profile", "sent"), [(OPENAI, False), (GENERIC, True)])
def test_a_gateways_signature_goes_back_to_it_and_not_to_openai(profile: Profile, sent: bool) -> None:
    extra = {"google": {"thought_signature": "s"}}
    wire, _ = format_messages([Msg.assistant(ToolUseBlock("c", "f", metadata={"extra_content": extra}))], profile)
    (call,) = wire["tool_calls"]  # pyright: ignore
    assert ("extra_content" in call) is sent


def test_files_are_sent_as_data_with_their_names(tmp_path) -> None:
    path = tmp_path / "lease.pdf"
    path.write_bytes(b"%PDF")
    (wire,) = format_messages(read_files([Msg.user([TextBlock("read"), FileBlock(FileSource(path))])]), OPENAI)
    assert wire["content"] == [
        {"type": "text", "text": "read"},
        {"type": "file", "file": {"filename": "lease.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
    ]
    with pytest.raises(InvalidInputError, match="not as an address"):
        format_messages([Msg.user(FileBlock(URLSource("https://x/y.pdf")))], OPENAI)


def test_video_goes_to_compatible_servers_only() -> None:
    message = Msg.user(VideoBlock(URLSource("https://x/y.mp4")))
    (wire,) = format_messages([message], GENERIC)
    assert wire["content"] == [{"type": "video_url", "video_url": {"url": "https://x/y.mp4"}}]
    with pytest.raises(InvalidInputError, match="base_url"):
        format_messages([message], OPENAI)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (Msg.user(AudioBlock(URLSource("https://x/y.wav"))), "Fetch it"),
        (Msg.user(AudioBlock(Base64Source("audio/flac", "AA=="))), "wav or mp3"),
        (Msg.user(CALL), "user message cannot hold a tool_use"),
        (Msg.system([ImageBlock(PNG)]), "text only"),
        (Msg("tool", [TextBlock("a")], "tool"), "tool results only"),
        (Msg.user(ImageBlock(FileSource("./a.png"))), "not read"),
        (Msg.assistant(ToolUseBlock("c", "f", {"x": object()})), "cannot be sent as JSON"),
        (Msg.assistant(ToolUseBlock("c", "f", {"x": float("nan")})), "cannot be sent as JSON"),
    ],
)
def test_what_cannot_be_said_is_an_error_that_tells_why(message: Msg, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        format_messages([message], OPENAI)


# --- files -----------------------------------------------------------------------------------------------------------


def test_files_are_read_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"jpg")
    (tmp_path / "b.unknown").write_bytes(b"wav")
    picture = ImageBlock(FileSource(tmp_path / "a.jpg"))
    messages = [
        Msg.user("no file"),
        Msg.user([TextBlock("a"), picture]),
        Msg.tool(result(TextBlock("b"), AudioBlock(FileSource(tmp_path / "b.unknown")))),
    ]
    assert [has_files([message]) for message in messages] == [False, True, True]
    first, second, third = read_files(messages)
    assert first is messages[0]
    assert second.id == messages[1].id
    assert second.content[1] == ImageBlock(Base64Source("image/jpeg", base64.b64encode(b"jpg").decode()))
    assert third.tool_results[0].output[1] == AudioBlock(Base64Source("audio/wav", base64.b64encode(b"wav").decode()))
    assert not has_files([first, second, third])


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=r"lost\.png cannot be read"):
        read_files([Msg.user(ImageBlock(FileSource(tmp_path / "lost.png")))])
    monkeypatch.setattr("agentscope_rx.models.wire.media.MAX_FILE_BYTES", 2)
    (tmp_path / "big.png").write_bytes(b"big")
    with pytest.raises(InvalidInputError, match=r"big\.png has 3 bytes; at most 2"):
        read_files([Msg.user(ImageBlock(FileSource(tmp_path / "big.png")))])


# --- options and tools -----------------------------------------------------------------------------------------------

F = ToolSchema("f", "does f", {"type": "object", "properties": {}})
STRICT = ToolSchema("g", "does g", {}, strict=True)


def body(
    options: GenerateOptions, *tools: ToolSchema, stream: bool = False, profile: Profile = OPENAI
) -> dict[str, object]:
    made = format_request("m", [Msg.user("hi")], tools, options, stream=stream, profile=profile)
    assert (made.pop("model"), made.pop("messages"), made.pop("stream")) == (
        "m",
        [{"role": "user", "content": "hi"}],
        stream,
    )
    json.dumps(made)
    return made


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (GenerateOptions(), {}),
        (
            GenerateOptions(temperature=0.0, top_p=0.5, frequency_penalty=1, presence_penalty=-1, seed=0),
            {"temperature": 0.0, "top_p": 0.5, "frequency_penalty": 1, "presence_penalty": -1, "seed": 0},
        ),
        (GenerateOptions(stop=("a", "b")), {"stop": ["a", "b"]}),
        (GenerateOptions(stop="ab"), {"stop": ["ab"]}),
        (GenerateOptions(reasoning_effort="low"), {"reasoning_effort": "low"}),
        (GenerateOptions(response_format={"type": "json_object"}), {"response_format": {"type": "json_object"}}),
        (GenerateOptions(max_tokens=5), {"max_completion_tokens": 5}),
        (GenerateOptions(max_tokens=5, max_completion_tokens=6), {"max_completion_tokens": 6}),
        (GenerateOptions(parallel_tool_calls=False), {}),
        (GenerateOptions(tool_choice=ToolChoice("auto")), {}),
        (
            GenerateOptions(additional_body_params={"x": {"y": 1}, "temperature": 2}, temperature=1),
            {"x": {"y": 1}, "temperature": 2},
        ),
        (GenerateOptions(additional_body_params={"temperature": None}, temperature=1), {}),
    ],
)
def test_options_on_the_wire(options: GenerateOptions, fields: dict[str, object]) -> None:
    assert body(options) == fields


def test_compatible_servers_get_the_old_name_of_the_limit() -> None:
    assert body(GenerateOptions(max_tokens=5), profile=GENERIC) == {"max_tokens": 5}
    assert body(GenerateOptions(max_completion_tokens=5), profile=GENERIC) == {"max_completion_tokens": 5}


def test_a_stream_asks_for_its_usage() -> None:
    assert body(GenerateOptions(), stream=True) == {"stream_options": {"include_usage": True}}
    without = GenerateOptions(additional_body_params={"stream_options": None})
    assert body(without, stream=True) == {}


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        (ToolChoice(), "auto"),
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice.specific("g"), {"type": "function", "function": {"name": "g"}}),
    ],
)
def test_tools_and_the_choice_among_them(choice: ToolChoice, wire: object) -> None:
    made = body(GenerateOptions(tool_choice=choice, parallel_tool_calls=False), F, STRICT)
    assert made == {
        "tools": [format_tool(F), format_tool(STRICT)],
        "tool_choice": wire,
        "parallel_tool_calls": False,
    }


def test_a_tool_on_the_wire() -> None:
    parameters = {"type": "object", "properties": {}}
    assert format_tool(F) == {
        "type": "function",
        "function": {"name": "f", "description": "does f", "parameters": parameters},
    }
    assert format_tool(STRICT)["function"] == {
        "name": "g",
        "description": "does g",
        "parameters": parameters,
        "strict": True,
    }


@pytest.mark.parametrize(
    ("options", "tools"),
    [
        (GenerateOptions(tool_choice=ToolChoice("required")), ()),
        (GenerateOptions(tool_choice=ToolChoice.specific("f")), ()),
        (GenerateOptions(tool_choice=ToolChoice.specific("h")), (F,)),
        (GenerateOptions(top_k=1), ()),
        (GenerateOptions(thinking_budget=1), ()),
    ],
)
def test_what_cannot_be_honoured_is_refused(options: GenerateOptions, tools: tuple[ToolSchema, ...]) -> None:
    with pytest.raises(ConfigurationError):
        body(options, *tools)


def test_json_of_what_frozen_values_hold() -> None:
    assert encode_json(ToolUseBlock("c", "f", {"a": {"b": (1, None)}}).input) == '{"a":{"b":[1,null]}}'
