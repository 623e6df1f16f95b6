"""Token counts of requests: the port, an estimate without dependencies, exact counts by a tokenizer."""

from agentscope_rx.models.tokens.costs import (
    ANTHROPIC,
    COSTS_OF,
    GEMINI,
    OPENAI,
    OPENAI_MINI,
    QWEN,
    AreaRule,
    Costs,
    CropRule,
    FlatRule,
    PatchRule,
    PictureRule,
    TileRule,
)
from agentscope_rx.models.tokens.counter import (
    EstimatedTokens,
    MessageCounts,
    TextCounter,
    TokenCounter,
    estimated_tokens,
)
from agentscope_rx.models.tokens.tokenizers import FileTokens, OpenAITokens

__all__ = [
    "ANTHROPIC",
    "COSTS_OF",
    "GEMINI",
    "OPENAI",
    "OPENAI_MINI",
    "QWEN",
    "AreaRule",
    "Costs",
    "CropRule",
    "EstimatedTokens",
    "FileTokens",
    "FlatRule",
    "MessageCounts",
    "OpenAITokens",
    "PatchRule",
    "PictureRule",
    "TextCounter",
    "TileRule",
    "TokenCounter",
    "estimated_tokens",
]
