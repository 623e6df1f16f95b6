"""What `DashScopeChatModel` sends is what the official SDK puts on the wire for the same conversation.

The SDK has two generations: `dashscope.Client` (of 2.x) and, for what that one does not know, the classes of 1.x.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    FramesSource,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models import DashScopeChatModel, GenerateOptions, ToolChoice, ToolSchema
from tests.models.conftest import Asked, Loopback, loopback

# the SDK's own imports warn
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")

WEB = "https://host/a.png"
PNG = Base64Source("image/png", "AA==")
CITY = {"type": "object", "properties": {"city": {"type": "string", "minLength": 1}}, "required": ["city"]}
WEATHER = ToolSchema("weather", "The weather.", CITY)
CLOCK = ToolSchema("clock", "The time.", {"type": "object", "properties": {}})
WIRE_WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": CITY}}
WIRE_CLOCK = {
    "type": "function",
    "function": {"name": "clock", "description": "The time.", "parameters": {"type": "object", "properties": {}}},
}
CALL = ToolUseBlock("c1", "weather", {"city": "北京"})
WIRE_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"北京"}'}}
TOLD = {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": "sunny"}
MARK = {"type": "ephemeral"}
HI = [Msg.user("hi")]
WIRE_HI = [{"role": "user", "content": "hi"}]


def made(*messages: Msg, **given: Any) -> dict[str, Any]:
    """What ours is given."""
    return {"messages": list(messages) or HI, **given}


def sent(messages: list[Any] | None = None, **given: Any) -> dict[str, Any]:
    """What the SDK is given."""
    return {"messages": messages or WIRE_HI, **given}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def options(**given: Any) -> dict[str, Any]:
    return {"options": GenerateOptions(**given)}


class Case(NamedTuple):
    ours: dict[str, Any]
    theirs: dict[str, Any]
    model: str = "qwen-plus"
    old: bool = False


CASES: dict[str, Case] = {
    "a word": Case(made(), sent()),
    "system and turns": Case(
        made(Msg.system("be kind"), Msg.user("a"), Msg.assistant("b"), Msg.user("c")),
        sent(
            [
                {"role": "system", "content": "be kind"},
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"},
                {"role": "user", "content": "c"},
            ]
        ),
    ),
    "thinking stays at home": Case(
        made(Msg.user("a"), Msg.assistant([ThinkingBlock("hm"), TextBlock("b")]), Msg.user("c")),
        sent(["a", {"role": "assistant", "content": "b"}, "c"]),
    ),
    "thinking sent back": Case(
        made(
            Msg.user("a"),
            Msg.assistant([ThinkingBlock("hm"), TextBlock("b")]),
            Msg.user("c"),
            send_reasoning=True,
            **options(additional_body_params={"preserve_thinking": True}),
        ),
        sent(
            ["a", {"role": "assistant", "content": "b", "reasoning_content": "hm"}, "c"],
            parameters={"preserve_thinking": True},
        ),
    ),
    "sampling": Case(
        made(**options(temperature=0.1, top_p=0.5, top_k=7, seed=4, max_tokens=9, presence_penalty=-1.0)),
        sent(temperature=0.1, top_p=0.5, top_k=7, seed=4, max_tokens=9, presence_penalty=-1.0),
    ),
    "stop": Case(made(**options(stop=["a", "b"])), sent(stop=["a", "b"])),
    "repetition penalty": Case(
        made(**options(additional_body_params={"repetition_penalty": 1.1})), sent(repetition_penalty=1.1)
    ),
    "more choices": Case(
        made(**options(additional_body_params={"n": 2, "logprobs": True, "top_logprobs": 2})),
        sent(n=2, logprobs=True, top_logprobs=2),
    ),
    "tools": Case(made(tools=[WEATHER, CLOCK]), sent(tools=[WIRE_WEATHER, WIRE_CLOCK])),
    "tool choice auto": Case(
        made(tools=[WEATHER], **options(tool_choice=ToolChoice("auto"))),
        sent(tools=[WIRE_WEATHER], tool_choice="auto"),
    ),
    "tool choice none": Case(
        made(tools=[WEATHER], **options(tool_choice=ToolChoice("none"))),
        sent(tools=[WIRE_WEATHER], tool_choice="none"),
    ),
    "one of the tools": Case(
        made(tools=[WEATHER, CLOCK], **options(tool_choice=ToolChoice.specific("clock"))),
        sent(tools=[WIRE_WEATHER, WIRE_CLOCK], tool_choice={"type": "function", "function": {"name": "clock"}}),
    ),
    "required, of one": Case(
        made(tools=[WEATHER], **options(tool_choice=ToolChoice("required"))),
        sent(tools=[WIRE_WEATHER], tool_choice={"type": "function", "function": {"name": "weather"}}),
    ),
    "parallel calls": Case(
        made(tools=[WEATHER], **options(parallel_tool_calls=True)),
        sent(tools=[WIRE_WEATHER], parallel_tool_calls=True),
    ),
    "a call and its result": Case(
        made(Msg.user("a"), Msg.assistant([CALL]), Msg.tool(ToolResultBlock.of(CALL, "sunny")), tools=[WEATHER]),
        sent(["a", {"role": "assistant", "content": "", "tool_calls": [WIRE_CALL]}, TOLD], tools=[WIRE_WEATHER]),
    ),
    "words and two calls": Case(
        made(
            Msg.user("a"),
            Msg.assistant([TextBlock("let me see"), CALL, ToolUseBlock("c2", "clock")]),
            Msg.tool([ToolResultBlock.of(CALL, "sunny"), ToolResultBlock("c2", "clock", "noon")]),
            Msg.assistant("done"),
            Msg.user("thanks"),
        ),
        sent(
            [
                "a",
                {
                    "role": "assistant",
                    "content": "let me see",
                    "tool_calls": [
                        WIRE_CALL,
                        {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
                    ],
                },
                TOLD,
                {"role": "tool", "tool_call_id": "c2", "name": "clock", "content": "noon"},
                {"role": "assistant", "content": "done"},
                "thanks",
            ]
        ),
    ),
    "json object": Case(
        made(**options(response_format={"type": "json_object"})), sent(response_format={"type": "json_object"})
    ),
    "json schema": Case(
        made(
            **options(
                response_format={"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": CITY}}
            )
        ),
        sent(response_format={"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": CITY}}),
    ),
    "thinking on": Case(made(enable_thinking=True), sent(enable_thinking=True)),
    "thinking off": Case(made(enable_thinking=False), sent(enable_thinking=False)),
    "thinking budget": Case(made(**options(thinking_budget=100)), sent(enable_thinking=True, thinking_budget=100)),
    "search": Case(
        made(enable_search=True, search_options={"forced_search": True, "search_strategy": "max"}),
        sent(enable_search=True, search_options={"forced_search": True, "search_strategy": "max"}),
    ),
    "a cached prefix": Case(
        made(Msg("system", "long", "system", metadata={"cache_control": True}), Msg.user("a")),
        sent([{"role": "system", "content": [{**text("long"), "cache_control": MARK}]}, "a"]),
    ),
    "a picture on the web": Case(
        made(Msg.user([ImageBlock(URLSource(WEB)), TextBlock("what?")])),
        sent([user({"type": "image", "url": WEB}, text("what?"))]),
        "qwen-vl-plus",
    ),
    "a picture as data, with bounds": Case(
        made(Msg.user([TextBlock("what?"), ImageBlock(PNG, 10, 20)])),
        sent([user(text("what?"), {"image": "data:image/png;base64,AA==", "min_pixels": 10, "max_pixels": 20})]),
        "qwen-vl-plus",
    ),
    "a picture that is to be cached": Case(
        made(Msg("user", [TextBlock("what?"), ImageBlock(PNG)], "user", metadata={"cache_control": MARK})),
        sent([user(text("what?"), {"image": "data:image/png;base64,AA==", "cache_control": MARK})]),
        "qwen-vl-plus",
    ),
    "sound": Case(
        made(Msg.user([AudioBlock(Base64Source("audio/wav", "UklG")), TextBlock("what?")])),
        sent([user({"type": "audio", "data": "UklG", "format": "wav"}, text("what?"))]),
        "qwen-audio-turbo",
    ),
    "a film": Case(
        made(Msg.user([VideoBlock(URLSource("https://host/a.mp4"), fps=2.0, total_pixels=99), TextBlock("what?")])),
        sent([user({"type": "video", "url": "https://host/a.mp4", "fps": 2.0, "total_pixels": 99}, text("what?"))]),
        "qwen3-vl-plus",
    ),
    "a film as its pictures": Case(
        made(Msg.user([VideoBlock(FramesSource((URLSource(WEB), PNG)), fps=1.0), TextBlock("what?")])),
        sent([user({"video": [WEB, "data:image/png;base64,AA=="], "fps": 1.0}, text("what?"))]),
        "qwen3-vl-plus",
    ),
    "a film in the old SDK": Case(
        made(
            Msg.user([VideoBlock(FramesSource((URLSource(WEB), URLSource(WEB))), 2.0, 8, 1, 2, 3), TextBlock("what?")])
        ),
        sent(
            [
                user(
                    {
                        "video": [WEB, WEB],
                        "fps": 2.0,
                        "max_frames": 8,
                        "min_pixels": 1,
                        "max_pixels": 2,
                        "total_pixels": 3,
                    },
                    {"text": "what?"},
                )
            ],
            result_format="message",
        ),
        "qwen3-vl-plus",
        old=True,
    ),
    "all parts at the multimodal endpoint": Case(
        made(
            Msg.system("be kind"),
            Msg.user([ImageBlock(URLSource(WEB))]),
            Msg.assistant([CALL]),
            Msg.tool(ToolResultBlock.of(CALL, "sunny")),
            tools=[WEATHER],
        ),
        sent(
            [
                {"role": "system", "content": [text("be kind")]},
                user({"type": "image", "url": WEB}),
                {"role": "assistant", "content": [text("")], "tool_calls": [WIRE_CALL]},
                {**TOLD, "content": [text("sunny")]},
            ],
            tools=[WIRE_WEATHER],
        ),
        "qwen3.5-plus",
    ),
    "as a stream": Case(made(stream=True), sent(stream=True)),
    "as a stream, thinking": Case(
        made(Msg.user("a"), stream=True, enable_thinking=True, tools=[WEATHER], **options(thinking_budget=5)),
        sent(["a"], stream=True, enable_thinking=True, thinking_budget=5, tools=[WIRE_WEATHER]),
        "qwen3-max",
    ),
    "as a stream in the old SDK": Case(
        made(stream=True, **options(temperature=0.5)),
        sent(stream=True, temperature=0.5, incremental_output=True, result_format="message"),
        old=True,
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    async def answer(reply: Any) -> None:
        message = {"role": "assistant", "content": "ok"}
        said = {"output": {"choices": [{"message": message, "finish_reason": "stop"}]}, "request_id": "r"}
        if "x-dashscope-sse" in reply.asked.headers:
            reply.start()
            reply.send(said)
            reply.end()
        else:
            reply.json(200, said)

    with loopback(answer) as server:
        yield server


@pytest.fixture(scope="module")
def sdk(server: Loopback) -> Iterator[Callable[[Case], Asked]]:
    """Runs a case through the SDK and gives what the server read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dashscope = pytest.importorskip("dashscope")
    base = server.url.replace("/v1", "/api/v1")

    def run(case: Case) -> Asked:
        given = {"model": case.model, **case.theirs}
        before = len(server.asked)
        if case.old:
            media = any(isinstance(message["content"], list) for message in given["messages"])
            kind = dashscope.MultiModalConversation if media else dashscope.Generation
            answer = kind.call(api_key="k", base_address=base, **given)
        else:
            answer = client.chat.completions.create(**given)
        if given.get("stream"):
            assert list(answer)
        assert len(server.asked) == before + 1
        return server.asked[-1]

    with dashscope.Client(api_key="k", base_url=base) as client:
        yield run
    from dashscope.api_entities.http_request import close_shared_sync_session

    close_shared_sync_session()


def ours(case: Case, server: Loopback) -> Any:
    given = {"stream": False, **case.ours}
    messages, tools = given.pop("messages"), given.pop("tools", ())
    asked = given.pop("options", GenerateOptions())
    # the SDK does as it is told: without a stream, if it is told nothing
    if given.get("enable_thinking") and not given["stream"]:
        asked = asked.over(GenerateOptions(additional_body_params={"incremental_output": None}))
    model = DashScopeChatModel(case.model, api_key="k", base_url=server.url.replace("/v1", "/api/v1"), **given)
    return model.exchange(messages, tools, asked).request


@pytest.mark.parametrize("name", CASES)
def test_the_body_is_that_of_the_official_sdk(name: str, sdk: Callable[[Case], Asked], server: Loopback) -> None:
    case = CASES[name]
    theirs = sdk(case)
    request = ours(case, server)
    body = json.loads(request.body)
    assert body == theirs.body
    assert request.url.endswith(theirs.target)
    assert request.headers["authorization"] == theirs.headers["authorization"]
    if not case.ours.get("enable_thinking"):
        assert request.headers.get("x-dashscope-sse") == theirs.headers.get("x-dashscope-sse")
