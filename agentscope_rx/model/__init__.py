"""Models: the port, its options and responses, and the providers. A provider is imported when it is first named."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from agentscope_rx.model.capabilities import Capabilities
from agentscope_rx.model.chat_model import ChatModel
from agentscope_rx.model.openai.model import OpenAIChatModel
from agentscope_rx.model.options import (
    MODEL_DEFAULTS,
    TOOL_DEFAULTS,
    UNSET,
    ExecutionConfig,
    GenerateOptions,
    ToolChoice,
    ToolSchema,
)
from agentscope_rx.model.response import AudioDelta, ChatResponse, FinishReason, RetryNotice, ToolUseDelta

if TYPE_CHECKING:
    from agentscope_rx.model.anthropic.model import AnthropicChatModel
    from agentscope_rx.model.around import AroundModel, CircuitBreaker, FallbackModel, HedgedModel, LimitedModel
    from agentscope_rx.model.dashscope.model import DashScopeChatModel
    from agentscope_rx.model.gemini.model import GeminiChatModel
    from agentscope_rx.model.ollama.model import OllamaChatModel
    from agentscope_rx.model.openai_responses.model import OpenAIResponsesModel
    from agentscope_rx.model.registry import ModelRegistry, model, register_provider
    from agentscope_rx.model.speakers import SeveralSpeakers
    from agentscope_rx.model.truncating import TruncatingModel

_LAZY = {
    "AnthropicChatModel": "agentscope_rx.model.anthropic.model",
    "AroundModel": "agentscope_rx.model.around",
    "CircuitBreaker": "agentscope_rx.model.around",
    "DashScopeChatModel": "agentscope_rx.model.dashscope.model",
    "FallbackModel": "agentscope_rx.model.around",
    "GeminiChatModel": "agentscope_rx.model.gemini.model",
    "HedgedModel": "agentscope_rx.model.around",
    "LimitedModel": "agentscope_rx.model.around",
    "ModelRegistry": "agentscope_rx.model.registry",
    "OllamaChatModel": "agentscope_rx.model.ollama.model",
    "OpenAIResponsesModel": "agentscope_rx.model.openai_responses.model",
    "SeveralSpeakers": "agentscope_rx.model.speakers",
    "model": "agentscope_rx.model.registry",
    "register_provider": "agentscope_rx.model.registry",
    "TruncatingModel": "agentscope_rx.model.truncating",
}

__all__ = [
    "MODEL_DEFAULTS",
    "TOOL_DEFAULTS",
    "UNSET",
    "AnthropicChatModel",
    "AroundModel",
    "AudioDelta",
    "Capabilities",
    "ChatModel",
    "ChatResponse",
    "CircuitBreaker",
    "DashScopeChatModel",
    "ExecutionConfig",
    "FallbackModel",
    "FinishReason",
    "GeminiChatModel",
    "GenerateOptions",
    "HedgedModel",
    "LimitedModel",
    "ModelRegistry",
    "OllamaChatModel",
    "OpenAIChatModel",
    "OpenAIResponsesModel",
    "RetryNotice",
    "SeveralSpeakers",
    "ToolChoice",
    "ToolSchema",
    "ToolUseDelta",
    "TruncatingModel",
    "model",
    "register_provider",
]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
