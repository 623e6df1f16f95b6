"""How many tokens a request takes: the port, an estimate that needs nothing, exact counts by a tokenizer."""

from agentscope_rx.models.tokens.costs import ANTHROPIC, COSTS_OF, GEMINI, OPENAI, OPENAI_MINI, QWEN
from agentscope_rx.models.tokens.counter import Costs, MessageCounts, TextCounter, TokenCounter
from agentscope_rx.models.tokens.estimate import EstimatedTokens, estimated_tokens
from agentscope_rx.models.tokens.image_tokens import AreaRule, CropRule, FlatRule, PatchRule, PictureRule, TileRule
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
