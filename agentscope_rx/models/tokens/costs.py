"""What vendors take for what is no text, as data. Their pages change: each value says where it is from."""

from __future__ import annotations

from typing import Final

from agentscope_rx.models.providers import PROVIDERS, models_of
from agentscope_rx.models.tokens.counter import Costs
from agentscope_rx.models.tokens.image_tokens import AreaRule, CropRule, PatchRule, TileRule

OPENAI: Final = Costs(
    # OpenAI cookbook, "How to count tokens with tiktoken": 3 for a message, 1 for a name, 3 before the answer;
    # thinking is not sent back in Chat Completions
    request=3,
    message=3,
    name=1,
    thinking=False,
    # OpenAI, "Images and vision": 85 + 170 for each tile of 512 (gpt-4o, gpt-4.1); gpt-5 takes 70 + 140, less
    picture=TileRule(85, 170),
)
OPENAI_MINI: Final = Costs(
    request=3,
    message=3,
    name=1,
    thinking=False,
    # the same page: patches of 32, at most 1,536, times 1.62 (gpt-4.1-mini, gpt-5-mini) or less
    picture=PatchRule(32, 1_536, 1.62),
)
ANTHROPIC: Final = Costs(
    # Anthropic, "Vision": width * height / 750, scaled down to 1,568 the longer side, about 1,600 at most
    picture=AreaRule(750, fit=1_568, most=1_600),
)
GEMINI: Final = Costs(
    # Google, "Understand and count tokens": 258 up to 384 each way, else 258 for each crop;
    # 32 for a second of sound, 263 for one of video: flat for about 45 and 15 seconds
    picture=CropRule(258, 384),
    audio=1_440,
    video=3_945,
)
QWEN: Final = Costs(
    # Model Studio, "Visual understanding": a token for 28 * 28 pixels and 2 around them, at most 1,280 unless more is
    # asked for by max_pixels; thinking is not sent back
    thinking=False,
    picture=PatchRule(28, 1_280, extra=2),
)

_KNOWN: Final = {"openai": OPENAI, "anthropic": ANTHROPIC, "gemini": GEMINI, "dashscope": QWEN}
COSTS_OF: Final = {name: _KNOWN[models_of(name)] for name in PROVIDERS if models_of(name) in _KNOWN}
"""By `ChatModel.provider`."""
