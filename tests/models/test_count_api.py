"""Token counts by the vendors' APIs: what goes over the wire, and the providers that have no such API."""

from __future__ import annotations

from typing import Any

import pytest

from agentscope_rx import ExecutionConfig, GenerateOptions, Msg
from agentscope_rx.errors import ConfigurationError, ProtocolError, RateLimitError
from agentscope_rx.models import AnthropicChatModel, GeminiChatModel, OpenAIChatModel
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.models.tokens.count_api import asked_tokens
from agentscope_rx.testing import ScriptedModel
from tests.support.json_server import JsonServer

MESSAGES = [Msg.system("Be kind."), Msg.user("Hello")]
TOOLS = [ToolSchema("look", "Looks.", {"type": "object", "properties": {}})]
ONCE = ExecutionConfig(max_attempts=1)


def test_anthropic_is_asked_as_the_sdk_does() -> None:
    sdk = pytest.importorskip("anthropic")
    with JsonServer(lambda path, body: {"input_tokens": 42}) as server:
        model = AnthropicChatModel("claude-sonnet-4-5", api_key="k", base_url=f"{server.url}/v1")
        assert asked_tokens(model, MESSAGES, TOOLS, GenerateOptions(temperature=0.5)).run() == 42
        ours = server.asked[0]
        client = sdk.Anthropic(api_key="k", base_url=server.url, max_retries=0)
        client.messages.count_tokens(**ours.body)
        client.close()
    theirs = server.asked[1]
    assert (ours.path, ours.body) == (theirs.path, theirs.body)
    assert set(ours.body) == {"model", "messages", "system", "tools"}
    assert ours.headers["x-api-key"] == "k"


def test_gemini_is_asked() -> None:
    with JsonServer(lambda path, body: {"totalTokens": 7}) as server:
        model = GeminiChatModel("gemini-2.5-flash", api_key="k", base_url=server.url)
        assert asked_tokens(model, MESSAGES, TOOLS).run() == 7
    (asked,) = server.asked
    assert asked.path == "/v1beta/models/gemini-2.5-flash:countTokens"
    request = asked.body["generateContentRequest"]
    assert request["model"] == "models/gemini-2.5-flash"
    assert request["contents"][0]["parts"][0]["text"] == "Hello"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [({}, ProtocolError), ([], ProtocolError), ((429, {"error": {"message": "no"}}), RateLimitError)],
)
def test_errors(answer: Any, kind: type[Exception]) -> None:
    with JsonServer(lambda path, body: answer) as server:
        model = AnthropicChatModel("claude-sonnet-4-5", api_key="k", base_url=server.url, execution_config=ONCE)
        with pytest.raises(kind):
            asked_tokens(model, MESSAGES).run()


def test_retries() -> None:
    answers = [(500, {}), {"input_tokens": 3}]
    with JsonServer(lambda path, body: answers.pop(0)) as server:
        config = ExecutionConfig(initial_backoff=0)
        model = AnthropicChatModel("claude-sonnet-4-5", api_key="k", base_url=server.url, execution_config=config)
        assert asked_tokens(model, MESSAGES).run() == 3


@pytest.mark.parametrize("model", [OpenAIChatModel("gpt-5-mini", api_key="k"), ScriptedModel()])
def test_who_does_not_tell(model: Any) -> None:
    with pytest.raises(ConfigurationError, match="OpenAITokens"):
        asked_tokens(model, MESSAGES)
