"""How many tokens a request takes: the port, an estimate that needs nothing, exact counts by a tokenizer."""

from agentscope_rx.model.tokens.counter import Costs, MessageCounts, TextCounter, TokenCounter
from agentscope_rx.model.tokens.estimate import EstimatedTokens, estimated_tokens
from agentscope_rx.model.tokens.exact import FileTokens, OpenAITokens
from agentscope_rx.model.tokens.pictures import AreaRule, CropRule, FlatRule, PatchRule, PictureRule, TileRule
from agentscope_rx.model.tokens.vendors import ANTHROPIC, COSTS_OF, GEMINI, OPENAI, OPENAI_MINI, QWEN

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
