"""Models: the port, its options and responses, and the providers. A provider is imported when it is first named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.lazy import import_lazily
from agentscope_rx.models.capabilities import Capabilities
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import (
    MODEL_DEFAULTS,
    TOOL_DEFAULTS,
    UNSET,
    ExecutionConfig,
    GenerateOptions,
    ToolChoice,
    ToolSchema,
)
from agentscope_rx.models.response import AudioDelta, ChatResponse, FinishReason, RetryNotice, ToolUseDelta

if TYPE_CHECKING:
    from agentscope_rx.models.anthropic.model import AnthropicChatModel
    from agentscope_rx.models.dashscope.model import DashScopeChatModel
    from agentscope_rx.models.gemini.model import GeminiChatModel
    from agentscope_rx.models.ollama.model import OllamaChatModel
    from agentscope_rx.models.openai.history import messages_from_openai
    from agentscope_rx.models.openai.model import OpenAIChatModel
    from agentscope_rx.models.openai.responses.model import OpenAIResponsesModel
    from agentscope_rx.models.registry import ModelRegistry, get_model, register_provider
    from agentscope_rx.models.wrappers import (
        AttemptWrapper,
        CircuitBreaker,
        FallbackModel,
        HedgedModel,
        RateLimitedModel,
    )
    from agentscope_rx.models.wrappers.multi_agent import MultiAgentModel, merge_speakers
    from agentscope_rx.models.wrappers.truncating import TruncatingModel

_LAZY = {
    "AnthropicChatModel": "agentscope_rx.models.anthropic.model",
    "AttemptWrapper": "agentscope_rx.models.wrappers",
    "CircuitBreaker": "agentscope_rx.models.wrappers",
    "DashScopeChatModel": "agentscope_rx.models.dashscope.model",
    "FallbackModel": "agentscope_rx.models.wrappers",
    "GeminiChatModel": "agentscope_rx.models.gemini.model",
    "HedgedModel": "agentscope_rx.models.wrappers",
    "RateLimitedModel": "agentscope_rx.models.wrappers",
    "ModelRegistry": "agentscope_rx.models.registry",
    "OllamaChatModel": "agentscope_rx.models.ollama.model",
    "OpenAIChatModel": "agentscope_rx.models.openai.model",
    "OpenAIResponsesModel": "agentscope_rx.models.openai.responses.model",
    "MultiAgentModel": "agentscope_rx.models.wrappers.multi_agent",
    "get_model": "agentscope_rx.models.registry",
    "merge_speakers": "agentscope_rx.models.wrappers.multi_agent",
    "messages_from_openai": "agentscope_rx.models.openai.history",
    "register_provider": "agentscope_rx.models.registry",
    "TruncatingModel": "agentscope_rx.models.wrappers.truncating",
}

__all__ = [
    "MODEL_DEFAULTS",
    "TOOL_DEFAULTS",
    "UNSET",
    "AnthropicChatModel",
    "AttemptWrapper",
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
    "ModelRegistry",
    "MultiAgentModel",
    "OllamaChatModel",
    "OpenAIChatModel",
    "OpenAIResponsesModel",
    "RateLimitedModel",
    "RetryNotice",
    "ToolChoice",
    "ToolSchema",
    "ToolUseDelta",
    "TruncatingModel",
    "get_model",
    "merge_speakers",
    "messages_from_openai",
    "register_provider",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
