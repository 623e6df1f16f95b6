"""`estimated_tokens`: tokens of a text without a tokenizer, by the kinds of its characters. Pure.

A token is about: a word of up to 9 letters with the space before it, two digits, three marks, a line's end with what is
set in behind it. Of other scripts a character is a part of a token, by the table `_SCRIPTS`. The numbers are fitted to
what tokenizers really give; `docs/tokens-speech-embeddings.md` has how far off they are.
"""

from __future__ import annotations

import re
from math import ceil

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.tokens.counter import Costs, TextCounter

_ASCII = re.compile(r"[A-Z]?[a-z]{1,9}|[A-Z]{1,3}|[0-9]{1,2}|[!-/:-@\[-`{-~]{1,3}|\n[ \t]*| {2,}")

_SCRIPTS = tuple(
    (re.compile(f"[{characters}]+"), weight)
    for characters, weight in (
        (r"\u2e80-\u2fff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff", 0.85),  # Han
        (r"\u3000-\u30ff\uff00-\uffef", 0.9),  # kana and wide marks
        (r"\u1100-\u11ff\uac00-\ud7af", 0.85),  # Hangul
        (r"\u0080-\u024f\u2000-\u206f", 0.85),  # Latin with marks, typographic marks
        (r"\u0250-\u08ff\u1e00-\u1fff\ufb1d-\ufdff\ufe70-\ufefe", 0.4),  # Greek, Cyrillic, Hebrew, Arabic
        (r"\u0900-\u10ff\u1200-\u1dff", 0.5),  # the scripts of India and South East Asia, and others
        (r"\u2070-\u2e7f\ue000-\uf8ff\U00010000-\U0001ffff", 1.8),  # symbols, emoji
    )
)


def estimated_tokens(text: str) -> int:
    """About how many tokens the text has; 0 only for the empty text."""
    if not text:
        return 0
    count: float = len(_ASCII.findall(text))
    if not text.isascii():
        count += sum(weight * sum(map(len, script.findall(text))) for script, weight in _SCRIPTS)
    return max(1, ceil(count))


class EstimatedTokens(TextCounter):
    """Counts without a tokenizer. `scale` is for a model whose tokens are smaller: 1.3 means 30 % more of them."""

    def __init__(self, costs: Costs | None = None, *, scale: float = 1.0) -> None:
        if not 0.1 <= scale <= 10:
            raise ConfigurationError(f"scale says how many tokens to count for one: 0.1 to 10, not {scale!r}.")
        super().__init__(estimated_tokens if scale == 1.0 else lambda text: ceil(scale * estimated_tokens(text)), costs)
