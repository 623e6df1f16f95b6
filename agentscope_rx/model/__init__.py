"""Models: the port, its options and responses, and the providers."""

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
from agentscope_rx.model.response import ChatResponse, FinishReason, RetryNotice, ToolUseDelta

__all__ = [
    "MODEL_DEFAULTS",
    "TOOL_DEFAULTS",
    "UNSET",
    "ChatModel",
    "ChatResponse",
    "ExecutionConfig",
    "FinishReason",
    "GenerateOptions",
    "OpenAIChatModel",
    "RetryNotice",
    "ToolChoice",
    "ToolSchema",
    "ToolUseDelta",
]
