"""What `GeminiChatModel` sends is what the official SDK puts on the wire for the same conversation.

The SDK writes bytes in the URL-safe alphabet of base64 and some names in snake case, which JSON of protocol buffers
takes as well: both are read before they are compared. It asks API version v1 unless told; we ask v1beta, which has all
of it and the previews, too.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from google import genai
from google.genai import types

from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    FileBlock,
    FramesSource,
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
from agentscope_rx.models import ExecutionConfig, GeminiChatModel, GenerateOptions, ToolChoice, ToolSchema
from tests.models.conftest import Asked, Loopback, Reply, loopback

OLD, NEW = "gemini-2.5-flash", "gemini-3-flash-preview"
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 1}, "when": {"$ref": "#/$defs/When"}},
    "required": ["city"],
    "$defs": {"When": {"type": "string", "format": "date"}},
}
EMPTY = {"type": "object", "properties": {}}
WEATHER = ToolSchema("weather", "The weather.", CITY)
CLOCK = ToolSchema("clock", "The time.", EMPTY)
TOOLS = (WEATHER, CLOCK)
W_TOOLS = [
    types.Tool(
        function_declarations=[
            types.FunctionDeclaration(name="weather", description="The weather.", parameters_json_schema=CITY),
            types.FunctionDeclaration(name="clock", description="The time.", parameters_json_schema=EMPTY),
        ]
    )
]
SIG = base64.b64encode(b"\xfb\xffsigned").decode()
OWN = {"vendor": "gemini"}
CALL = ToolUseBlock("c1", "weather", {"city": "北京"}, metadata={**OWN, "signature": SIG})
SECOND = ToolUseBlock("c2", "clock", metadata=OWN)
UNNAMED = ToolUseBlock("call_ours", "clock", metadata={**OWN, "no_id": True})
SUNNY = ToolResultBlock.of(CALL, "sunny")
NOON = ToolResultBlock.of(SECOND, "noon")
ASKED = Msg.user("Weather?")
DATA = b"\x89PNG\xff\xfe"
PNG = Base64Source.of(DATA, "image/png")
W_PNG = types.Part.from_bytes(data=DATA, mime_type="image/png")
SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def part(text: str) -> types.Part:
    return types.Part(text=text)


def turn(role: str, *parts: Any) -> types.Content:
    return types.Content(role=role, parts=[part(each) if isinstance(each, str) else each for each in parts])


def call(name: str, id: str | None, args: dict[str, Any], signature: bytes | None = None) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=id, name=name, args=args), thought_signature=signature)


def response(name: str, id: str | None, value: dict[str, Any], parts: list[Any] | None = None) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=id, name=name, response=value, parts=parts))


W_CALL = call("weather", "c1", {"city": "北京"}, b"\xfb\xffsigned")
W_SECOND = call("clock", "c2", {})


class Case(NamedTuple):
    messages: list[Msg]
    contents: list[types.Content]
    config: dict[str, Any]
    options: GenerateOptions | None
    tools: tuple[ToolSchema, ...]
    model: dict[str, Any]
    name: str


def case(
    ours: list[Msg] | None = None,
    turns: list[types.Content] | None = None,
    options: dict[str, Any] | None = None,
    tools: tuple[ToolSchema, ...] = (),
    model: dict[str, Any] | None = None,
    name: str = NEW,
    **config: Any,
) -> Case:
    wire = [*(W_TOOLS if tools else ()), *config.pop("server", ())]
    if wire:
        config["tools"] = wire
    return Case(
        ours or [Msg.user("hi")],
        turns or [turn("user", "hi")],
        config,
        GenerateOptions(**options) if options else None,
        tools,
        model or {},
        name,
    )


def choice(mode: str, **more: Any) -> types.ToolConfig:
    return types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode=mode, **more))  # pyright: ignore


CASES: dict[str, Case] = {
    "a word": case(),
    "a word, streamed": case(model={"stream": True}),
    "system": case([Msg.system("be kind"), Msg.user("hi")], system_instruction="be kind"),
    "two system messages": case(
        [Msg.system("a"), Msg.system("b"), Msg.user("hi")], system_instruction=[part("a"), part("b")]
    ),
    "turns": case(
        [Msg.user("a"), Msg.assistant("b"), Msg.user("c")], [turn("user", "a"), turn("model", "b"), turn("user", "c")]
    ),
    "a later system message": case(
        [Msg.user("a"), Msg.assistant("b"), Msg.system("in French"), Msg.user("c")],
        [turn("user", "a"), turn("model", "b"), turn("user", "<system>\nin French\n</system>", "c")],
    ),
    "messages of one role are one content": case(
        [Msg.user("a"), Msg.user("b"), Msg.assistant("c"), Msg.assistant("d"), Msg.user("e")],
        [turn("user", "a", "b"), turn("model", "c", "d"), turn("user", "e")],
    ),
    "names": case(
        [Msg.user("a", name="Alice"), Msg.assistant("b", name="Bob"), Msg.assistant("c", name="Eve"), Msg.user("d")],
        [turn("user", "Alice: a"), turn("model", "Bob: b", "Eve: c"), turn("user", "d")],
    ),
    "image": case([Msg.user([TextBlock("what?"), ImageBlock(PNG)])], [turn("user", "what?", W_PNG)]),
    "image as data": case(
        [Msg.user([ImageBlock(URLSource(f"data:image/png;base64,{PNG.data}"))])], [turn("user", W_PNG)]
    ),
    "image at an address": case(
        [Msg.user([ImageBlock(URLSource("https://example.com/cat.jpg"))])],
        [turn("user", types.Part.from_uri(file_uri="https://example.com/cat.jpg", mime_type="image/jpeg"))],
    ),
    "an uploaded file": case(
        [Msg.user([FileBlock(URLSource("https://generativelanguage.googleapis.com/v1beta/files/abc"))])],
        [
            turn(
                "user",
                types.Part(
                    file_data=types.FileData(file_uri="https://generativelanguage.googleapis.com/v1beta/files/abc")
                ),
            )
        ],
    ),
    "sound": case(
        [Msg.user([AudioBlock(Base64Source.of(b"RIFF", "audio/wav"))])],
        [turn("user", types.Part.from_bytes(data=b"RIFF", mime_type="audio/wav"))],
    ),
    "video": case(
        [Msg.user([VideoBlock(URLSource("https://example.com/v.mp4"), fps=2.0)])],
        [
            turn(
                "user",
                types.Part(
                    file_data=types.FileData(file_uri="https://example.com/v.mp4", mime_type="video/mp4"),
                    video_metadata=types.VideoMetadata(fps=2.0),
                ),
            )
        ],
    ),
    "frames of a video": case([Msg.user([VideoBlock(FramesSource((PNG, PNG)))])], [turn("user", W_PNG, W_PNG)]),
    "PDF": case(
        [Msg.user([FileBlock(Base64Source.of(b"%PDF-", "application/pdf"), "a.pdf")])],
        [turn("user", "File a.pdf:", types.Part.from_bytes(data=b"%PDF-", mime_type="application/pdf"))],
    ),
    "tools": case(tools=TOOLS),
    "choice auto": case(options={"tool_choice": ToolChoice("auto")}, tools=TOOLS, tool_config=choice("AUTO")),
    "choice none": case(options={"tool_choice": ToolChoice("none")}, tools=TOOLS, tool_config=choice("NONE")),
    "choice required": case(options={"tool_choice": ToolChoice("required")}, tools=TOOLS, tool_config=choice("ANY")),
    "choice of one": case(
        options={"tool_choice": ToolChoice.specific("clock")},
        tools=TOOLS,
        tool_config=choice("ANY", allowed_function_names=["clock"]),
    ),
    "strict tools": case(
        tools=(ToolSchema("weather", "The weather.", CITY, strict=True), CLOCK), tool_config=choice("VALIDATED")
    ),
    "call and response": case(
        [ASKED, Msg.assistant([TextBlock("I look."), CALL]), Msg.tool(SUNNY)],
        [
            turn("user", "Weather?"),
            turn("model", "I look.", W_CALL),
            turn("user", response("weather", "c1", {"output": "sunny"})),
        ],
        tools=TOOLS,
    ),
    "parallel calls, answered in any order, are answered in theirs": case(
        [ASKED, Msg.assistant([CALL, SECOND]), Msg.tool(NOON), Msg.user("hurry"), Msg.tool(SUNNY)],
        [
            turn("user", "Weather?"),
            turn("model", W_CALL, W_SECOND),
            turn("user", response("weather", "c1", {"output": "sunny"}), response("clock", "c2", {"output": "noon"})),
            turn("user", "hurry"),
        ],
        tools=TOOLS,
    ),
    "calls that Gemini gave no id": case(
        [ASKED, Msg.assistant([UNNAMED]), Msg.tool(ToolResultBlock.of(UNNAMED, "noon"))],
        [
            turn("user", "Weather?"),
            turn("model", call("clock", None, {})),
            turn("user", response("clock", None, {"output": "noon"})),
        ],
        tools=TOOLS,
        name=OLD,
    ),
    "calls of another provider": case(
        [ASKED, Msg.assistant([ToolUseBlock("toolu_1", "clock"), ToolUseBlock("toolu_2", "clock")])],
        [
            turn("user", "Weather?"),
            turn(
                "model",
                call("clock", "toolu_1", {}, base64.urlsafe_b64decode("skip_thought_signature_validator")),
                call("clock", "toolu_2", {}),
            ),
            turn(
                "user",
                response("clock", "toolu_1", {"output": "There is no result of this call yet."}),
                response("clock", "toolu_2", {"output": "There is no result of this call yet."}),
            ),
        ],
        tools=TOOLS,
    ),
    "failed call": case(
        [ASKED, Msg.assistant([CALL]), Msg.tool(ToolResultBlock.error(CALL, ToolResultKind.TIMEOUT, "too late"))],
        [
            turn("user", "Weather?"),
            turn("model", W_CALL),
            turn("user", response("weather", "c1", {"error": "Error: too late"})),
        ],
        tools=TOOLS,
    ),
    "image in a response": case(
        [ASKED, Msg.assistant([CALL]), Msg.tool(ToolResultBlock.of(CALL, [TextBlock("look"), ImageBlock(PNG)]))],
        [
            turn("user", "Weather?"),
            turn("model", W_CALL),
            turn(
                "user",
                response(
                    "weather",
                    "c1",
                    {"output": "look"},
                    [types.FunctionResponsePart.from_bytes(data=DATA, mime_type="image/png")],
                ),
            ),
        ],
        tools=TOOLS,
    ),
    "image beside a response": case(
        [ASKED, Msg.assistant([CALL]), Msg.tool(ToolResultBlock.of(CALL, [TextBlock("look"), ImageBlock(PNG)]))],
        [
            turn("user", "Weather?"),
            turn("model", W_CALL),
            turn("user", response("weather", "c1", {"output": "look"})),
            turn("user", "Media of the result of weather (c1):", W_PNG),
        ],
        tools=TOOLS,
        name=OLD,
    ),
    "signed thoughts and texts": case(
        [
            Msg.user("a"),
            Msg.assistant(
                [
                    ThinkingBlock("unsigned"),
                    ThinkingBlock("hm", SIG, OWN),
                    TextBlock("one two"),
                    ThinkingBlock("", SIG, {**OWN, "spans": [[4, 7, SIG]]}),
                ]
            ),
            Msg.user("b"),
        ],
        [
            turn("user", "a"),
            turn(
                "model",
                types.Part(text="hm", thought=True, thought_signature=b"\xfb\xffsigned"),
                "one ",
                types.Part(text="two", thought_signature=b"\xfb\xffsigned"),
            ),
            turn("user", "b"),
        ],
    ),
    "an image that was drawn": case(
        [
            Msg.user("draw"),
            Msg.assistant([TextBlock("here"), ImageBlock(PNG), ThinkingBlock("", SIG, {**OWN, "media": True})]),
            Msg.user("nicer"),
        ],
        [
            turn("user", "draw"),
            turn(
                "model",
                "here",
                types.Part(
                    inline_data=types.Blob(data=DATA, mime_type="image/png"), thought_signature=b"\xfb\xffsigned"
                ),
            ),
            turn("user", "nicer"),
        ],
    ),
    "code that ran at the server": case(
        [
            Msg.user("a"),
            Msg.assistant(
                [
                    ThinkingBlock(
                        "",
                        None,
                        {
                            **OWN,
                            "parts": [
                                '{"executableCode":{"language":"PYTHON","code":"1+1"}}',
                                '{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2"}}',
                            ],
                        },
                    ),
                    TextBlock("2"),
                ]
            ),
            Msg.user("b"),
        ],
        [
            turn("user", "a"),
            turn(
                "model",
                types.Part(executable_code=types.ExecutableCode(language="PYTHON", code="1+1")),  # pyright: ignore
                types.Part(code_execution_result=types.CodeExecutionResult(outcome="OUTCOME_OK", output="2")),  # pyright: ignore
                "2",
            ),
            turn("user", "b"),
        ],
    ),
    "thinking of others": case(
        [
            Msg.user("a"),
            Msg.assistant([ThinkingBlock("x", "S", {"vendor": "anthropic"}), TextBlock("b")]),
            Msg.user("c"),
        ],
        [turn("user", "a"), turn("model", "b"), turn("user", "c")],
    ),
    "sampling": case(
        options={
            "temperature": 0.2,
            "top_p": 0.9,
            "top_k": 5,
            "seed": 7,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.3,
        },
        temperature=0.2,
        top_p=0.9,
        top_k=5,
        seed=7,
        presence_penalty=0.1,
        frequency_penalty=0.3,
    ),
    "tokens and stops": case(options={"max_tokens": 99, "stop": ["END"]}, max_output_tokens=99, stop_sequences=["END"]),
    "budget": case(
        options={"thinking_budget": 512},
        name=OLD,
        thinking_config=types.ThinkingConfig(thinking_budget=512, include_thoughts=True),
    ),
    "no thinking": case(
        options={"thinking_budget": 0}, name=OLD, thinking_config=types.ThinkingConfig(thinking_budget=0)
    ),
    "level": case(
        options={"reasoning_effort": "low"},
        thinking_config=types.ThinkingConfig(thinking_level="LOW", include_thoughts=True),  # pyright: ignore
    ),
    "thoughts shown": case(
        model={"include_thoughts": True}, thinking_config=types.ThinkingConfig(include_thoughts=True)
    ),
    "shape": case(
        options={"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SHAPE}}},
        response_mime_type="application/json",
        response_json_schema=SHAPE,
    ),
    "JSON": case(options={"response_format": {"type": "json_object"}}, response_mime_type="application/json"),
    "safety": case(
        model={"safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]},
        safety_settings=[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    ),
    "tools of the server": case(
        model={"server_tools": [{"googleSearch": {}}]}, server=[types.Tool(google_search=types.GoogleSearch())]
    ),
    "fields of one's own": case(
        options={
            "temperature": 0.5,
            "additional_body_params": {
                "generationConfig": {"responseModalities": ["TEXT"]},
                "cachedContent": "cachedContents/c",
            },
        },
        temperature=0.5,
        response_modalities=["TEXT"],
        cached_content="cachedContents/c",
    ),
}

WHOLE = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    "responseId": "r1",
}


async def answer(reply: Reply) -> None:
    if "alt=sse" in reply.asked.target:
        reply.start()
        reply.send(WHOLE)
        reply.end()
    else:
        reply.json(200, WHOLE)


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with loopback(answer) as running:
        yield running


def theirs(server: Loopback, given: Case) -> Asked:
    options = types.HttpOptions(base_url=server.url.removesuffix("/v1"), api_version="v1beta")
    with genai.Client(api_key="k", http_options=options) as client:
        asked: Any = {"model": given.name, "contents": given.contents, "config": given.config or None}
        if given.model.get("stream"):
            for _ in client.models.generate_content_stream(**asked):
                pass
        else:
            client.models.generate_content(**asked)
    return server.asked[-1]


def ours(server: Loopback, given: Case) -> Asked:
    model = GeminiChatModel(
        given.name,
        **{
            "api_key": "k",
            "base_url": server.url.removesuffix("/v1"),
            "stream": False,
            "execution_config": ExecutionConfig(max_attempts=1),
            **given.model,
        },
    )

    async def ask() -> None:
        async for _ in model.stream(given.messages, given.tools, given.options):
            pass

    asyncio.run(ask())
    return server.asked[-1]


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def read(value: Any) -> Any:
    """The body with its base64 in one alphabet and its names in one spelling, without an empty generationConfig."""
    if isinstance(value, dict):
        return {
            name: each.replace("-", "+").replace("_", "/") if name in ("data", "thoughtSignature") else read(each)
            for name, each in ((camel(name), each) for name, each in value.items())
            if (name, each) != ("generationConfig", {})
        }
    return [read(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", CASES)
def test_the_wire_is_that_of_the_sdk(server: Loopback, name: str) -> None:
    given = CASES[name]
    own, official = ours(server, given), theirs(server, given)
    assert read(official.body) == read(own.body)
    assert official.target == own.target
    assert own.headers["x-goog-api-key"] == "k"


@pytest.mark.parametrize(("project", "location"), [("p", "europe-west4"), ("p", "global")])
def test_addresses_of_vertex_are_those_of_the_sdk(server: Loopback, project: str, location: str) -> None:
    from google.oauth2.credentials import Credentials

    base = server.url.removesuffix("/v1")
    with genai.Client(
        vertexai=True,
        project=project,
        location=location,
        credentials=Credentials(token="t1"),
        http_options=types.HttpOptions(base_url=base),
    ) as client:
        client.models.generate_content(model=OLD, contents="hi")
    official = server.asked[-1].target
    asked: list[int] = []

    def token() -> str:
        asked.append(1)
        return f"t{len(asked)}"

    given = case(name=OLD, model={"project": project, "location": location, "api_key": None, "token": token})
    own = ours(server, given)
    assert own.target == official
    assert own.headers["authorization"] == "Bearer t1"
    assert "x-goog-api-key" not in own.headers
