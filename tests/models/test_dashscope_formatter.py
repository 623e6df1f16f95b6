"""What is asked of DashScope, as tables: messages, tools and options in, URL, headers and body out."""

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
from agentscope_rx.models import DashScopeChatModel, GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.dashscope.endpoint import DASHSCOPE_INTL_URL, kind_of

PNG = Base64Source("image/png", "AA==")
PICTURE = {"image": "data:image/png;base64,AA=="}
CALL = ToolUseBlock("c1", "f", {"city": "北京"})
TOOL = ToolSchema("f", "d", {})
TEXT = "/services/aigc/text-generation/generation"
MULTIMODAL = "/services/aigc/multimodal-generation/generation"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BASE_URL", "HTTP_BASE_URL", "API_KEY", "WORKSPACE", "WORKSPACE_ID"):
        monkeypatch.delenv(f"DASHSCOPE_{name}", raising=False)


def asked(*messages: Msg, model: str = "qwen-plus", tools: Any = (), options: Any = None, **given: Any) -> Any:
    chat = DashScopeChatModel(model, api_key="k", **given)
    return chat.exchange(messages or [Msg.user("hi")], tools, options or GenerateOptions()).request


def body(*messages: Msg, **given: Any) -> Any:
    return json.loads(asked(*messages, **given).body)


def wire(*messages: Msg, **given: Any) -> Any:
    return body(*messages, **given)["input"]["messages"]


# --- which endpoint --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("qwen-plus", "text"),
        ("qwen-max-latest", "text"),
        ("qwen3-max", "text"),
        ("qwen3-235b-a22b", "text"),
        ("qwen2.5-72b-instruct", "text"),
        ("qwq-plus", "text"),
        ("deepseek-v3", "text"),
        ("glm-4.5", "text"),
        ("qwen3.6-max-preview", "text"),
        ("qwen3.7-max", "text"),
        ("qwen-vl-max", "multimodal"),
        ("qwen3-vl-plus", "multimodal"),
        ("qwen2.5-vl-72b-instruct", "multimodal"),
        ("Qwen-VL-OCR", "multimodal"),
        ("qvq-max", "multimodal"),
        ("qwen3-omni-flash", "multimodal"),
        ("qwen3-asr-flash", "multimodal"),
        ("qwen-audio-turbo", "multimodal"),
        ("qwen3.5-plus", "multimodal"),
        ("qwen3.5-397b-a17b", "multimodal"),
        ("qwen3.7-plus", "multimodal"),
        ("qwen3.8-max", "multimodal"),
        ("qwen4-plus", "multimodal"),
        ("kimi-k2.5", "multimodal"),
        ("kimi-k2-thinking", "text"),
    ],
)
def test_the_name_of_a_model_says_which_endpoint_it_has(model: str, kind: str) -> None:
    assert kind_of(model, media=False) == kind
    assert kind_of(model, media=True) == "multimodal"


def test_media_anywhere_ask_for_the_multimodal_endpoint() -> None:
    shown = ToolResultBlock.of(CALL, ImageBlock(PNG))
    assert asked(Msg.user("hi")).url.endswith(TEXT)
    assert asked(Msg.user(ImageBlock(PNG))).url.endswith(MULTIMODAL)
    assert asked(Msg.assistant([CALL]), Msg.tool(shown)).url.endswith(MULTIMODAL)
    assert asked(model="qwen-vl-max", endpoint="text").url.endswith(TEXT)
    assert asked(endpoint="multimodal").url.endswith(MULTIMODAL)
    with pytest.raises(InvalidInputError, match="text endpoint takes no image: use endpoint='multimodal'"):
        asked(Msg.user(ImageBlock(PNG)), endpoint="text")
    with pytest.raises(ConfigurationError, match="'auto' or 'text' or 'multimodal'"):
        asked(endpoint="vision")


# --- where it is -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "url"),
    [
        (None, "https://dashscope.aliyuncs.com/api/v1"),
        (DASHSCOPE_INTL_URL, "https://dashscope-intl.aliyuncs.com/api/v1"),
        ("https://host/api/v1/", "https://host/api/v1"),
        ("https://host", "https://host/api/v1"),
        ("http://host:8000/gateway/api/v1", "http://host:8000/gateway/api/v1"),
        (f"https://host/x{MULTIMODAL}", "https://host/x"),
        (
            "https://{workspace_id}.ap-southeast-1.maas.aliyuncs.com",
            "https://ws1.ap-southeast-1.maas.aliyuncs.com/api/v1",
        ),
    ],
)
def test_the_path_of_the_service_is_appended(base: str | None, url: str) -> None:
    assert asked(base_url=base, workspace="ws1").url == url + TEXT


def test_a_query_of_ones_own_goes_out() -> None:
    options = GenerateOptions(additional_query_params={"a": "1 2"})
    assert asked(base_url="https://host/api/v1?a=0&b=3", options=options).url.endswith(f"{TEXT}?b=3&a=1+2")


@pytest.mark.parametrize(
    ("base", "why"),
    [
        ("host/api/v1", "must be an http"),
        ("https://dashscope.aliyuncs.com/compatible-mode/v1", "use OpenAIChatModel"),
        ("https://{workspace_id}.eu-central-1.maas.aliyuncs.com", "DASHSCOPE_WORKSPACE"),
    ],
)
def test_a_base_url_that_cannot_work_is_refused(base: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        DashScopeChatModel("m", api_key="k", base_url=base)


def test_what_is_not_given_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)api_key=.*DASHSCOPE_API_KEY"):
        DashScopeChatModel("m")
    DashScopeChatModel("m", base_url="http://localhost:8000")
    monkeypatch.setenv("DASHSCOPE_API_KEY", " secret \n")
    monkeypatch.setenv("DASHSCOPE_HTTP_BASE_URL", "https://old/api/v1")
    monkeypatch.setenv("DASHSCOPE_WORKSPACE", "ws")
    chat = DashScopeChatModel("m")
    request = chat.exchange([Msg.user("hi")], (), GenerateOptions()).request
    assert request.url == f"https://old/api/v1{TEXT}"
    assert request.headers == {
        "authorization": "Bearer secret",
        "x-dashscope-workspace": "ws",
        "x-dashscope-sse": "enable",
        "x-accel-buffering": "no",
    }
    assert "secret" not in repr(chat.endpoint)
    monkeypatch.setenv("DASHSCOPE_BASE_URL", "https://new/api/v1")
    assert DashScopeChatModel("m").endpoint.parts.hostname == "new"


def test_headers_of_ones_own_win() -> None:
    options = GenerateOptions(additional_headers={"X-DashScope-DataInspection": "disable", "Authorization": "z"})
    headers = asked(options=options, stream=False).headers
    assert headers == {"authorization": "z", "x-dashscope-datainspection": "disable"}


# --- messages --------------------------------------------------------------------------------------------------------


def test_names_are_said_in_words() -> None:
    assert wire(Msg.user("a", "Ann"), Msg.assistant("b", "Friday"), Msg.user("c")) == [
        {"role": "user", "content": "Ann: a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    two = wire(Msg.assistant("a", "Friday"), Msg.assistant("b", "Monday"))
    assert [message["content"] for message in two] == ["Friday: a", "Monday: b"]
    assert wire(Msg.user(ImageBlock(PNG), "Ann"))[0]["content"] == [{"text": "Ann:"}, PICTURE]


def test_an_open_call_is_answered_and_what_came_between_waits() -> None:
    told = ToolResultBlock.of(CALL, "sunny")
    other = ToolUseBlock("c2", "g")
    messages = wire(Msg.assistant([CALL]), Msg.user("quick!"), Msg.tool(told), Msg.assistant([other]), Msg.user("?"))
    assert [(m["role"], m.get("tool_call_id")) for m in messages] == [
        ("assistant", None),
        ("tool", "c1"),
        ("user", None),
        ("assistant", None),
        ("tool", "c2"),
        ("user", None),
    ]
    assert "no result" in messages[4]["content"]


def test_the_media_of_a_result_follow_in_a_user_message() -> None:
    results = [ToolResultBlock.of(CALL, [TextBlock("here"), ImageBlock(PNG)]), ToolResultBlock("c2", "g", "noon")]
    messages = wire(Msg.assistant([CALL, ToolUseBlock("c2", "g")]), Msg.tool(results), Msg.user("and?"))
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user", "user"]
    assert messages[1]["content"] == [{"text": "here"}]
    assert messages[3]["content"] == [{"text": "Media of the result of f (c1):"}, PICTURE]


def test_what_says_nothing_is_left_out() -> None:
    assert wire(Msg.user(""), Msg.assistant(""), Msg.assistant([]), Msg.user("a")) == [{"role": "user", "content": "a"}]


def test_a_mark_stands_at_the_end_of_its_message() -> None:
    marked = Msg("user", [TextBlock("a"), TextBlock("b")], "user", metadata={"cache_control": {"type": "x"}})
    assert wire(marked)[0]["content"] == [{"text": "a\nb", "cache_control": {"type": "x"}}]
    assert wire(marked, endpoint="multimodal")[0]["content"] == [
        {"text": "a"},
        {"text": "b", "cache_control": {"type": "x"}},
    ]
    assert wire(marked.replace(metadata={"cache_control": False}))[0]["content"] == "a\nb"
    with pytest.raises(InvalidInputError, match="True or a mapping"):
        wire(marked.replace(metadata={"cache_control": "yes"}))


def test_uploaded_files_are_resolved_by_the_server() -> None:
    uploaded = URLSource("oss://bucket/a.png")
    assert asked(Msg.user(ImageBlock(PNG))).headers.get("x-dashscope-ossresourceresolve") is None
    for block in (ImageBlock(uploaded), AudioBlock(uploaded), VideoBlock(FramesSource((uploaded,)))):
        assert asked(Msg.user(block)).headers["x-dashscope-ossresourceresolve"] == "enable"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Msg.user(FileBlock(Base64Source("application/pdf", "AA=="))), "takes no files.*pages as images"),
        (Msg.user(ImageBlock(FileSource("/tmp/a.png"))), "was not read before"),
        (Msg.system([TextBlock("a"), ImageBlock(PNG)]), "system message can hold text only"),
        (Msg("tool", "a", "tool"), "holds tool results only"),
        (Msg.user([CALL]), "user message cannot hold a tool_use block"),
    ],
)
def test_what_cannot_be_said_is_an_error(message: Msg, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        wire(message, endpoint="multimodal")


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["frequency_penalty", "max_completion_tokens", "reasoning_effort"])
def test_options_without_a_field_are_refused(name: str) -> None:
    options = GenerateOptions(**{name: "low" if name == "reasoning_effort" else 1})  # pyright: ignore[reportArgumentType]
    with pytest.raises(UnsupportedOptionError, match=f"DashScope has no {name}") as caught:
        DashScopeChatModel("m", api_key="k", options=options)
    assert caught.value.option == name
    with pytest.raises(UnsupportedOptionError):
        asked(options=options)


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="enable_thinking=False"):
        asked(enable_thinking=False, options=GenerateOptions(thinking_budget=5))
    with pytest.raises(ConfigurationError, match="enable_search=True"):
        asked(search_options={"forced_search": True})


@pytest.mark.parametrize(
    ("choice", "tools", "why"),
    [
        (ToolChoice("required"), (TOOL, ToolSchema("g", "d", {})), "no tool_choice 'required' among several"),
        (ToolChoice("required"), (), "there are no tools"),
        (ToolChoice.specific("x"), (TOOL,), "'x', which is not among the tools: f"),
    ],
)
def test_a_choice_that_cannot_be_asked_for_is_refused(choice: ToolChoice, tools: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        asked(tools=tools, options=GenerateOptions(tool_choice=choice))


def test_the_callers_own_parameters_win() -> None:
    options = GenerateOptions(temperature=0.5, additional_body_params={"temperature": None, "enable_code": True})
    assert body(options=options, stream=False)["parameters"] == {"result_format": "message", "enable_code": True}


def test_a_thinking_model_is_asked_for_a_stream() -> None:
    chat = DashScopeChatModel("m", api_key="k", stream=False, enable_thinking=True)
    exchange = chat.exchange([Msg.user("hi")], (), GenerateOptions(stream=False))
    assert exchange.streams
    assert json.loads(exchange.request.body)["parameters"]["incremental_output"] is True


def test_a_shape_is_native_where_the_user_says_so() -> None:
    assert "native" not in DashScopeChatModel("m", api_key="k").output_modes
    assert "native" in DashScopeChatModel("m", api_key="k", native_output=True).output_modes
