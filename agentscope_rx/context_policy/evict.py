"""`EvictLargeResults` and `DropOldResults`: results leave the request, and stay in memory, where a tool reads them.

strategy             result of 90,000 tokens        result of 300 tokens
EvictLargeResults    head [...] tail                as it is
DropOldResults       [The result (...) ...]         [The result (...) ...]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, cast

from agentscope_rx.context_policy.read_back import read_result
from agentscope_rx.context_policy.short_results import (
    READING,
    change_old,
    dropped_result,
    may_exceed,
    shortened_result,
    text_counter,
)
from agentscope_rx.context_policy.strategy import StrategyContext
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import ContentBlock, Msg, ToolResultBlock
from agentscope_rx.models.checks import check_count, check_one_of
from agentscope_rx.tools import Tool
from agentscope_rx.tools.results.origin import READ_RESULT

MediaChoice = Literal["keep", "notice"]

LARGE = 20_000
"""About 80,000 characters of English."""
KEPT = 1_000
"""Half of it is the head of a large result, half its tail."""


class EvictLargeResults:
    """Old results of more than `max_tokens` are sent as their head and tail, of about `keep_tokens` together.

    The notice between them has the size, and how to read the whole. Results of the tools in `exclude` stay, and so do
    those of `read_result`. `media="notice"` replaces the media of a large result, too.
    """

    name: str = "evict_large_results"

    def __init__(
        self,
        max_tokens: int = LARGE,
        keep_tokens: int = KEPT,
        *,
        exclude: Collection[str] = READING,
        media: MediaChoice = "keep",
        keep_rounds: int = 1,
    ) -> None:
        check_sizes(max_tokens, keep_tokens)
        check_one_of("media", media, ("keep", "notice"), optional=False)
        check_count("keep_rounds", keep_rounds, 0)
        self.max_tokens = max_tokens
        self.keep_tokens = keep_tokens
        self.exclude: frozenset[str] = check_names("exclude", exclude) | {READ_RESULT}
        self.media: MediaChoice = media
        self.keep_rounds = keep_rounds

    def apply(self, context: StrategyContext) -> Sequence[Msg]:
        """The messages whose large results get short forms."""
        count = text_counter(context.measure)

        def form(whole: ContentBlock, shown: ContentBlock) -> ContentBlock | None:
            if not isinstance(whole, ToolResultBlock) or whole.name in self.exclude:
                return None
            assert isinstance(shown, ToolResultBlock)
            if not may_exceed(shown, self.max_tokens) or context.measure(Msg.tool(shown)) <= self.max_tokens:
                return None
            return shortened_result(whole, shown, self.keep_tokens, count, media=self.media == "keep")

        return change_old(context, self.keep_rounds, form)

    def tools(self) -> tuple[Tool, ...]:
        """The tool that reads the whole results."""
        return (read_result,)

    def __repr__(self) -> str:
        return f"<EvictLargeResults of more than {self.max_tokens:,} tokens>"


class DropOldResults:
    """The results outside of the last `keep_rounds` rounds are replaced by a line: their size, and how to read them."""

    name: str = "drop_old_results"

    def __init__(self, *, keep_rounds: int = 10, exclude: Collection[str] = ()) -> None:
        check_count("keep_rounds", keep_rounds, 0)
        self.keep_rounds = keep_rounds
        self.exclude: frozenset[str] = check_names("exclude", exclude)

    def apply(self, context: StrategyContext) -> Sequence[Msg]:
        """The messages whose results are dropped."""

        def form(whole: ContentBlock, shown: ContentBlock) -> ContentBlock | None:
            if not isinstance(whole, ToolResultBlock) or whole.name in self.exclude:
                return None
            return dropped_result(whole)

        return change_old(context, self.keep_rounds, form)

    def tools(self) -> tuple[Tool, ...]:
        """The tool that reads the results."""
        return (read_result,)

    def __repr__(self) -> str:
        return f"<DropOldResults but of the last {self.keep_rounds} rounds>"


def check_sizes(max_tokens: object, keep_tokens: object) -> None:
    """`ConfigurationError` unless so many tokens of a larger result can be kept."""
    check_count("max_tokens", max_tokens)
    check_count("keep_tokens", keep_tokens)
    if cast("int", keep_tokens) > cast("int", max_tokens):
        raise ConfigurationError(f"keep_tokens={keep_tokens} must not be more than max_tokens={max_tokens}.")


def check_names(option: str, names: object) -> frozenset[str]:
    """Names of tools as a set; `ConfigurationError` for anything else."""
    if isinstance(names, str) or not isinstance(names, Collection):
        raise ConfigurationError(f"{option} takes a list of names of tools, not {names!r:.60}.")
    given = cast("Collection[object]", names)
    for each in given:
        if not isinstance(each, str):
            raise ConfigurationError(f"{option} takes names of tools; it holds {each!r:.60}.")
    return frozenset(cast("Collection[str]", given))
