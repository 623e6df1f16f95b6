"""Servers that speak Chat Completions their own way: found by their address, and what they take or refuse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx.errors import ConfigurationError, InvalidInputError, UnsupportedOptionError
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
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models import (
    AnthropicChatModel,
    DashScopeChatModel,
    GeminiChatModel,
    GenerateOptions,
    OllamaChatModel,
    OpenAIChatModel,
    OpenAIResponsesModel,
    ToolChoice,
    ToolSchema,
)
from agentscope_rx.models.http_model import HttpChatModel
from agentscope_rx.models.openai.endpoint import endpoint_of
from agentscope_rx.models.openai.formatter import ANSWERED, format_messages, id_of_nine
from agentscope_rx.models.openai.profile import Profile
from agentscope_rx.models.openai.profiles import GENERIC, KNOWN, OPENAI, PROFILES, profile_named, profile_of
from agentscope_rx.models.openai.request import format_request
from agentscope_rx.models.wire.media import MediaBlock
from agentscope_rx.models.wire.pairing import NO_RESULT

F = ToolSchema("f", "", {}, strict=True)
G = ToolSchema("g", "", {})
PNG = Base64Source("image/png", "iVBORw==")
WEB = URLSource("https://example.com/a.mp3")
CALL = ToolUseBlock("call_1", "f")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for profile in KNOWN:
        monkeypatch.delenv(profile.key or "", raising=False)
    for name in ("OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)


def body(profile: str, options: GenerateOptions | None = None, *tools: ToolSchema, stream: bool = False) -> Any:
    given = options or GenerateOptions()
    return format_request("m", [Msg.user("hi")], tools, given, stream=stream, profile=PROFILES[profile])


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("https://api.deepseek.com/v1", "deepseek"),
        ("https://open.bigmodel.cn/api/paas/v4", "glm"),
        ("https://api.z.ai/api/paas/v4", "glm"),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "qwen"),
        ("https://api.moonshot.ai/v1", "moonshot"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.x.ai/v1", "xai"),
        ("https://mine.openai.azure.com", "azure"),
        ("https://eu.api.openai.com/v1", "openai"),
        ("https://notdeepseek.com/v1", "generic"),
        ("http://localhost:8000/v1", "generic"),
    ],
)
def test_a_server_is_known_by_its_host(base_url: str, name: str) -> None:
    assert OpenAIChatModel("m", base_url=base_url, api_key="k").profile.name == name


def test_a_named_profile_brings_address_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "openai's")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "deepseek's")
    model = OpenAIChatModel("deepseek-chat", profile="deepseek")
    assert model.endpoint.url == "https://api.deepseek.com/chat/completions"
    assert (model.endpoint.api_key, model.provider) == ("deepseek's", "deepseek")
    assert OpenAIChatModel("m", profile="Kimi", api_key="k").profile.name == "moonshot"


def test_a_key_of_openais_is_not_sent_to_another_known_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "openai's")
    with pytest.raises(ConfigurationError, match=r"No API key for Groq.*GROQ_API_KEY"):
        OpenAIChatModel("m", base_url="https://api.groq.com/openai/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.groq.com/openai/v1")
    # who names the server beside the key means the server
    assert OpenAIChatModel("m").endpoint.api_key == "openai's"


def test_what_is_not_known_is_said() -> None:
    with pytest.raises(ConfigurationError, match=r"no profile 'depseek'.*deepseek"):
        OpenAIChatModel("m", profile="depseek")
    with pytest.raises(ConfigurationError, match="pass base_url"):
        OpenAIChatModel("m", profile="generic")
    with pytest.raises(ConfigurationError, match="pass base_url"):
        OpenAIChatModel("m", profile="azure", api_key="k")


def test_ones_own_profile_and_what_the_user_knows_better() -> None:
    mine = GENERIC.but(name="mine", top_k=True)
    model = OpenAIChatModel("m", base_url="http://h/v1", profile=mine, send_reasoning=True, native_output=True)
    assert model.profile == mine.but(reasoning="always", native_output=True)
    assert "native" in model.output_modes
    assert "native" not in OpenAIChatModel("m", profile="openai", api_key="k", native_output=False).output_modes


@pytest.mark.parametrize(
    ("base_url", "version", "url"),
    [
        (
            "https://n.openai.azure.com?api-version=2024-10-21",
            None,
            "https://n.openai.azure.com/openai/deployments/m/chat/completions?api-version=2024-10-21",
        ),
        (
            "https://n.openai.azure.com/",
            "2024-10-21",
            "https://n.openai.azure.com/openai/deployments/m/chat/completions?api-version=2024-10-21",
        ),
        ("https://n.openai.azure.com", None, "https://n.openai.azure.com/openai/v1/chat/completions"),
        ("https://n.openai.azure.com/openai/v1/", "1", "https://n.openai.azure.com/openai/v1/chat/completions"),
        (
            "https://n.openai.azure.com/openai/deployments/d",
            "1",
            "https://n.openai.azure.com/openai/deployments/d/chat/completions?api-version=1",
        ),
    ],
)
def test_addresses_at_azure(base_url: str, version: str | None, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if version is not None:
        monkeypatch.setenv("OPENAI_API_VERSION", version)
    model = OpenAIChatModel("m", base_url=base_url, api_key="k")
    assert model.endpoint.url == url
    assert model.endpoint.headers_with({}) == {"api-key": "k"}


def test_azure_by_its_environment_and_with_a_token_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://n.openai.azure.com")
    model = OpenAIChatModel("m", profile="azure", api_key="")
    assert model.endpoint.url == "https://n.openai.azure.com/openai/v1/chat/completions"
    assert model.endpoint.headers_with({"Authorization": "Bearer t"}) == {"authorization": "Bearer t"}


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "budget", "fields"),
    [
        ("deepseek", 0, {"thinking": {"type": "disabled"}}),
        ("glm", 0, {"thinking": {"type": "disabled"}}),
        ("qwen", 0, {"enable_thinking": False}),
        ("qwen", 100, {"enable_thinking": True, "thinking_budget": 100}),
        ("openrouter", 0, {"reasoning": {"enabled": False}}),
        ("openrouter", 100, {"reasoning": {"max_tokens": 100}}),
        ("vllm", 0, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("openai", 100, None),
        ("openai", 0, None),
        ("deepseek", 100, None),
        ("vllm", 100, None),
    ],
)
def test_the_switch_of_thinking(profile: str, budget: int, fields: dict[str, object] | None) -> None:
    options = GenerateOptions(thinking_budget=budget)
    if fields is None:
        with pytest.raises(UnsupportedOptionError) as caught:
            body(profile, options)
        assert caught.value.option == "thinking_budget"
    else:
        assert body(profile, options).items() >= fields.items()


def test_fields_that_servers_name_or_have_differently() -> None:
    options = GenerateOptions(seed=1, max_tokens=2, top_k=3)
    assert body("openrouter", options).items() >= {"seed": 1, "max_tokens": 2, "top_k": 3}.items()
    assert body("mistral", GenerateOptions(seed=1)).items() >= {"random_seed": 1}.items()
    assert "stream_options" not in body("mistral", stream=True)
    with pytest.raises(UnsupportedOptionError, match="Mistral has no top_k"):
        body("mistral", options)
    with pytest.raises(UnsupportedOptionError, match="top_k"):
        OpenAIChatModel("m", profile="openai", api_key="k", options=options)


@pytest.mark.parametrize(
    ("profile", "choice", "tools", "sent"),
    [
        ("openai", ToolChoice("none"), "fg", "none"),
        ("glm", ToolChoice("auto"), "fg", "auto"),
        ("glm", ToolChoice("none"), "", None),
        ("llama.cpp", ToolChoice.specific("g"), "g", "required"),
        ("qwen", ToolChoice.specific("g"), "fg", {"type": "function", "function": {"name": "g"}}),
    ],
)
def test_a_choice_keeps_its_meaning(profile: str, choice: ToolChoice, tools: str, sent: object) -> None:
    made = body(profile, GenerateOptions(tool_choice=choice), F, G)
    assert "".join(tool["function"]["name"] for tool in made.get("tools", [])) == tools
    assert made.get("tool_choice") == sent


def test_a_choice_that_would_lose_its_meaning_is_refused() -> None:
    only = body("qwen", GenerateOptions(tool_choice=ToolChoice("required")), F)
    assert only["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    refused = [
        ("qwen", ToolChoice("required")),
        ("glm", ToolChoice("required")),
        ("glm", ToolChoice.specific("f")),
    ]
    for profile, choice in refused:
        with pytest.raises(UnsupportedOptionError, match="takes no tool_choice") as caught:
            body(profile, GenerateOptions(tool_choice=choice), F, G)
        assert caught.value.option == "tool_choice"


def test_parallel_tool_calls_false_where_servers_take_it() -> None:
    assert body("groq", GenerateOptions(parallel_tool_calls=False), F)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in body("deepseek", GenerateOptions(parallel_tool_calls=True), F)
    with pytest.raises(UnsupportedOptionError, match="one tool call at a time"):
        body("deepseek", GenerateOptions(parallel_tool_calls=False), F)


def test_strict_goes_to_servers_that_know_it() -> None:
    assert [("strict" in body(name, None, F)["tools"][0]["function"]) for name in ("openai", "groq")] == [True, False]


# --- messages ---------------------------------------------------------------------------------------------------------


def wire(profile: str, *messages: Msg) -> list[dict[str, Any]]:
    return format_messages(messages, PROFILES[profile])


@pytest.mark.parametrize(
    ("profile", "block", "part"),
    [
        ("qwen", AudioBlock(WEB), {"type": "input_audio", "input_audio": {"data": WEB.url, "format": "mp3"}}),
        (
            "qwen",
            AudioBlock(Base64Source("audio/ogg", "AA==")),
            {"type": "input_audio", "input_audio": {"data": "data:audio/ogg;base64,AA=="}},
        ),
        ("mistral", AudioBlock(Base64Source("audio/wav", "AA==")), {"type": "input_audio", "input_audio": "AA=="}),
        (
            "mistral",
            FileBlock(URLSource("https://example.com/a.pdf"), name="a"),
            {"type": "document_url", "document_url": "https://example.com/a.pdf", "document_name": "a"},
        ),
        (
            "openrouter",
            FileBlock(URLSource("https://example.com/a.pdf")),
            {"type": "file", "file": {"filename": "file", "file_data": "https://example.com/a.pdf"}},
        ),
        (
            "qwen",
            VideoBlock(FramesSource((PNG, WEB)), fps=2),
            {"type": "video", "video": ["data:image/png;base64,iVBORw==", WEB.url], "fps": 2},
        ),
        ("moonshot", ImageBlock(PNG), {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}),
        ("openai", VideoBlock(WEB), "takes no video"),
        ("generic", VideoBlock(FramesSource((PNG,))), "takes a video whole"),
        ("moonshot", ImageBlock(WEB), "sent as data, not as an address"),
        ("deepseek", ImageBlock(PNG), "DeepSeek takes no images"),
        ("deepseek", AudioBlock(WEB), "DeepSeek takes no audio"),
        ("groq", FileBlock(PNG), "Groq takes no files"),
        ("openai", AudioBlock(WEB), "sent as data, not as an address"),
        ("openai", AudioBlock(URLSource("data:audio/wav,x")), "must be base64"),
        ("openai", AudioBlock(Base64Source("audio/ogg", "AA==")), "wav or mp3"),
    ],
)
def test_media_as_each_server_takes_them(profile: str, block: MediaBlock, part: object) -> None:
    if isinstance(part, str):
        with pytest.raises(InvalidInputError, match=part):
            wire(profile, Msg.user(block))
    else:
        assert wire(profile, Msg.user(block))[0]["content"] == [part]


def test_a_speaker_is_said_in_words_where_there_is_no_field() -> None:
    messages: Sequence[Msg] = (Msg.user("a", name="Alice"), Msg.user(ImageBlock(PNG), name="Bob"))
    assert [each.get("name") for each in wire("openai", *messages)] == ["Alice", "Bob"]
    first, second = wire("groq", *messages)
    assert first == {"role": "user", "content": "Alice: a"}
    assert second["content"][0] == {"type": "text", "text": "Bob:"}
    assert "name" not in second


def test_thinking_goes_back_where_calls_need_it() -> None:
    messages = (
        Msg.assistant([ThinkingBlock("x"), TextBlock("a")]),
        Msg.assistant([ThinkingBlock("y"), CALL]),
        Msg.assistant([ToolUseBlock("c2", "f")]),
    )
    sent = [each.get("reasoning_content") for each in wire("deepseek", *messages) if each["role"] == "assistant"]
    assert sent == [None, "y", ""]
    assert not any("reasoning_content" in each for each in wire("openai", *messages))
    assert [each.get("reasoning_content") for each in wire("openrouter", *messages)][::2] == ["x", None, None]


def test_cache_marks_go_where_they_are_taken() -> None:
    marked = Msg.user("long").replace(metadata={"cache_control": True})
    assert wire("openrouter", marked)[0]["content"] == [
        {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}
    ]
    own = Msg.user([TextBlock("a"), ImageBlock(PNG)]).replace(
        metadata={"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    )
    assert wire("qwen", own)[0]["content"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert wire("openai", marked) == [{"role": "user", "content": "long"}]


def test_a_strict_server_gets_ids_and_an_order_that_it_takes() -> None:
    messages = (
        Msg.assistant([CALL, ToolUseBlock("abcDEF123", "f")]),
        Msg.tool([ToolResultBlock("call_1", "f", (TextBlock("see"), ImageBlock(PNG)))]),
        Msg.user("and?"),
    )
    calls, unanswered, told, between, asked = wire("mistral", *messages)
    ids = [call["id"] for call in calls["tool_calls"]]
    assert ids == [id_of_nine("call_1"), "abcDEF123"]
    assert (unanswered["tool_call_id"], unanswered["content"]) == ("abcDEF123", NO_RESULT)
    assert told["tool_call_id"] == ids[0]
    assert [part["type"] for part in told["content"]] == ["text", "image_url"]
    assert between == {"role": "assistant", "content": ANSWERED}
    assert asked == {"role": "user", "content": "and?"}


def test_a_conversation_without_a_user_gets_one_where_it_must() -> None:
    assert wire("glm", Msg.system("go"))[-1] == {"role": "user", "content": ""}
    assert wire("glm", Msg.system("go"), Msg.user("a"))[-1] == {"role": "user", "content": "a"}
    assert len(wire("openai", Msg.system("go"))) == 1


def test_every_profile_is_whole() -> None:
    for profile in KNOWN:
        assert PROFILES[profile.name] is profile
        assert "auto" in profile.tool_choice
        assert wire(profile.name, Msg.system("s"), Msg.user("u"))[-1] == {"role": "user", "content": "u"}
    assert OPENAI.extras is False


# --- the page ---------------------------------------------------------------------------------------------------------


def row(profile: Profile) -> str:
    yes = {True: "yes", False: "no"}
    choices = [mode for mode in ("auto", "none", "required", "specific") if mode in profile.tool_choice]
    cells = [
        f"`{profile.name}`",
        f"`{profile.key}`{'' if profile.needs_key else ', or none'}",
        {"any": "yes", "data": "as data", None: "no"}[profile.images],
        {"data": "as data", "url": "yes", "plain": "yes", None: "no"}[profile.audio],
        yes[profile.video],
        {"data": "as data", "any": "yes", "document": "yes", None: "no"}[profile.files],
        {"never": "no", "calls": "with calls", "always": "yes"}[profile.reasoning],
        {None: "no", "type": "0", "template": "0", "enable": "yes", "reasoning": "yes"}[profile.thinking],
        yes[profile.top_k],
        "all" if len(choices) == 4 else ", ".join(choices),
        yes[profile.native_output],
    ]
    return "| " + " | ".join(cells) + " |"


def test_the_page_has_the_profiles_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "providers.md").read_text()
    for profile in KNOWN:
        assert row(profile) in page


@pytest.mark.parametrize(("base_url", "strict"), [(None, False), ("https://api.deepseek.com/beta", True)])
def test_deepseek_takes_strict_under_beta_only(base_url: str | None, strict: bool) -> None:
    _, profile = endpoint_of(base_url, "k", profile="deepseek")
    assert profile.strict is strict


def test_ollama_reads_earlier_thinking_from_a_field_of_its_own() -> None:
    (wire,) = format_messages([Msg.assistant([ThinkingBlock("hm"), TextBlock("a")])], profile_named("ollama"))
    assert wire == {"role": "assistant", "content": "a", "reasoning": "hm"}


@pytest.mark.parametrize(
    ("host", "name"),
    [("api.minimaxi.com", "minimax"), ("api.minimax.io", "minimax"), ("ark.cn-beijing.volces.com", "volcengine")],
)
def test_minimax_and_volcengine_are_known_by_their_hosts(host: str, name: str) -> None:
    assert profile_of(host).name == name


def test_minimax_is_asked_for_its_thinking_apart() -> None:
    body = format_request("m", [Msg.user("hi")], (), GenerateOptions(), stream=False, profile=profile_named("minimax"))
    assert body["reasoning_split"] is True
    options = GenerateOptions(additional_body_params={"reasoning_split": False})
    body = format_request("m", [Msg.user("hi")], (), options, stream=False, profile=profile_named("minimax"))
    assert body["reasoning_split"] is False


@pytest.mark.parametrize(
    "model",
    [
        OpenAIChatModel("m", api_key="k"),
        OpenAIResponsesModel("m", api_key="k"),
        DashScopeChatModel("m", api_key="k"),
        OllamaChatModel("m"),
        GeminiChatModel("m", api_key="k"),
        AnthropicChatModel("m", api_key="k"),
    ],
    ids=lambda model: model.provider,
)
def test_unset_options_are_not_sent(model: HttpChatModel) -> None:
    with pytest.raises(InvalidInputError, match="There is nothing to send"):
        model.exchange([Msg.user("")], (), GenerateOptions())
