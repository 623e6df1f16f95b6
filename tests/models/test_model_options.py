"""Options that only one vendor has: what they may not be is refused where the model is made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models import (
    AnthropicChatModel,
    DashScopeChatModel,
    GeminiChatModel,
    OllamaChatModel,
    OpenAIResponsesModel,
)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: OllamaChatModel("m", think=3), "think must be True or False or 'low'"),
        (lambda: DashScopeChatModel("m", api_key="k", enable_thinking="x"), "enable_thinking must be True or False"),
        (lambda: DashScopeChatModel("m", api_key="k", enable_search=1), "enable_search must be True or False"),
        (lambda: AnthropicChatModel("m", api_key="k", cache="on"), "cache must be 'auto' or '1h'"),
        (lambda: AnthropicChatModel("m", api_key="k", server_tools=["x"]), "server_tools takes a list of JSON objects"),
        (lambda: GeminiChatModel("m", api_key="k", safety_settings=3), "safety_settings takes a list of JSON objects"),
        (lambda: OpenAIResponsesModel("m", api_key="k", summary="x"), "summary must be 'auto' or 'concise'"),
    ],
)
def test_what_it_may_not_be_is_refused_where_it_is_given(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        make()
