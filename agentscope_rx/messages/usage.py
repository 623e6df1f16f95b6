"""What a model call cost in tokens and seconds; usages add up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """Tokens read and written, and seconds taken; `a + b` sums every field.

    `cached_tokens` are the part of `input_tokens` that the provider had cached, `reasoning_tokens` the part of
    `output_tokens` spent on thinking.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    time: float = 0.0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: ChatUsage) -> ChatUsage:
        return ChatUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.time + other.time,
        )
