"""`ShortenArguments`, `ShortenResults`, `DropPictures`: old content is sent in short forms; memory keeps it whole."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentscope_rx.context_policy.evict import check_names
from agentscope_rx.context_policy.read_back import read_result
from agentscope_rx.context_policy.short_results import (
    MEDIA,
    change_old,
    media_notice,
    shortened_result,
    shorter_arguments,
    text_counter,
)
from agentscope_rx.context_policy.strategy import StrategyContext
from agentscope_rx.messages import ContentBlock, Msg, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.checks import check_count
from agentscope_rx.tools import Tool


class ShortenArguments:
    """Strings in the arguments of old calls are cut to `max_tokens` each, with a notice in their middle.

    The arguments stay a JSON object with the same keys; ids, names, signatures and thinking stay. The calls of the
    tools in `exclude` stay as they are.
    """

    name: str = "shorten_arguments"

    def __init__(self, max_tokens: int = 200, *, keep_rounds: int = 5, exclude: Collection[str] = ()) -> None:
        check_count("max_tokens", max_tokens)
        check_count("keep_rounds", keep_rounds, 0)
        self.max_tokens = max_tokens
        self.keep_rounds = keep_rounds
        self.exclude: frozenset[str] = check_names("exclude", exclude)

    def apply(self, context: StrategyContext) -> Sequence[Msg]:
        """The messages whose calls get shorter arguments."""
        count = text_counter(context.measure)

        def form(whole: ContentBlock, shown: ContentBlock) -> ContentBlock | None:
            if not isinstance(whole, ToolUseBlock) or whole.name in self.exclude:
                return None
            arguments = shorter_arguments(whole.input, self.max_tokens, count)
            return None if arguments is None else whole.with_input(arguments)

        return change_old(context, self.keep_rounds, form)

    def __repr__(self) -> str:
        return f"<ShortenArguments to {self.max_tokens:,} tokens a string>"


class ShortenResults:
    """The text of each old result is cut to `max_tokens`: its head and its tail, and how to read the whole."""

    name: str = "shorten_results"

    def __init__(self, max_tokens: int = 500, *, keep_rounds: int = 5, exclude: Collection[str] = ()) -> None:
        check_count("max_tokens", max_tokens)
        check_count("keep_rounds", keep_rounds, 0)
        self.max_tokens = max_tokens
        self.keep_rounds = keep_rounds
        self.exclude: frozenset[str] = check_names("exclude", exclude)

    def apply(self, context: StrategyContext) -> Sequence[Msg]:
        """The messages whose results get shorter texts."""
        count = text_counter(context.measure)

        def form(whole: ContentBlock, shown: ContentBlock) -> ContentBlock | None:
            if not isinstance(whole, ToolResultBlock) or whole.name in self.exclude:
                return None
            assert isinstance(shown, ToolResultBlock)
            return shortened_result(whole, shown, self.max_tokens, count)

        return change_old(context, self.keep_rounds, form)

    def tools(self) -> tuple[Tool, ...]:
        """The tool that reads the whole results."""
        return (read_result,)

    def __repr__(self) -> str:
        return f"<ShortenResults to {self.max_tokens:,} tokens>"


class DropPictures:
    """Old pictures, audio, videos and files are replaced by notices that name their kind.

    Those of results can be seen again with `read_result`; those of users and of the model are in memory only.
    """

    name: str = "drop_pictures"

    def __init__(self, *, keep_rounds: int = 2) -> None:
        check_count("keep_rounds", keep_rounds, 0)
        self.keep_rounds = keep_rounds

    def apply(self, context: StrategyContext) -> Sequence[Msg]:
        """The messages whose media are replaced."""

        def form(whole: ContentBlock, shown: ContentBlock) -> ContentBlock | None:
            if isinstance(shown, MEDIA):
                return TextBlock(media_notice(shown))
            if not isinstance(whole, ToolResultBlock) or not isinstance(shown, ToolResultBlock):
                return None
            if not any(isinstance(block, MEDIA) for block in shown.output):
                return None
            return shown.replace(
                output=[
                    TextBlock(media_notice(block, whole, whole.output.index(block) + 1))
                    if isinstance(block, MEDIA)
                    else block
                    for block in shown.output
                ]
            )

        return change_old(context, self.keep_rounds, form)

    def tools(self) -> tuple[Tool, ...]:
        """The tool that shows media of results again."""
        return (read_result,)

    def __repr__(self) -> str:
        return f"<DropPictures but of the last {self.keep_rounds} rounds>"
