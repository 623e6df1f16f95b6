"""`ToolResultEvictionHook`: a result that is large when it arrives is sent as its head and tail from then on.

    tool --> result of 90,000 tokens --> memory: the whole, with a short form --> requests: head [...] tail
                                                                                  read_result(call_id=...) reads it

| with an evictor      | memory has                                | the model reads the whole                       |
|----------------------|-------------------------------------------|-------------------------------------------------|
| no                   | the whole, and its short form             | by `read_result`                                |
| yes                  | the head and tail, and the place          | where it was stored, such as by the file tools  |
| yes, and it fails    | the whole, and its short form             | by `read_result`                                |

A tool's own limit (`max_result`, 100,000 characters by default) comes before: what it has cut off is not there to be
read back. Give tools with larger results `max_result=ResultLimit(None)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from agentscope_rx.context_policy.evict import KEPT, LARGE, MediaChoice, check_names, check_sizes
from agentscope_rx.context_policy.read_back import read_result
from agentscope_rx.context_policy.short_results import (
    READING,
    cut_text,
    may_exceed,
    shortened_result,
    text_counter,
    with_forms,
)
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event, PostActingEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.base import check_priority
from agentscope_rx.messages import ContentBlock, Msg, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.checks import check_one_of
from agentscope_rx.models.tokens import EstimatedTokens, TokenCounter
from agentscope_rx.reactive import Flow, concat_map, on_worker
from agentscope_rx.tools import ResultEvictor, ResultLimit, Tool
from agentscope_rx.tools.results.evictor import evicted
from agentscope_rx.tools.results.origin import READ_RESULT
from agentscope_rx.tools.results.result_limit import LEAST, Reference, size_of

_AT_ONCE = 200_000
"""Longer texts are counted and cut on a worker."""


class ToolResultEvictionHook(Hook):
    """A result that is large when it arrives is sent as its head and tail from then on.

        tool --> result of 90,000 tokens --> memory: the whole, with a short form --> requests: head [...] tail
                                                                                      read_result(call_id=...) reads it

    | option | |
    |---|---|
    | `max_tokens`, `keep_tokens` | results of more tokens are sent with about so many |
    | `exclude` | tools whose results stay; those of `read_result`, which comes with the hook, stay in any case |
    | `media` | `"notice"` replaces the media of a large result, too |
    | `evictor`, `patience` | stores the whole elsewhere, within so many seconds |
    | `counter` | counts tokens (default: an estimate) |

    | with an evictor | memory has | the model reads the whole |
    |---|---|---|
    | no, or one that fails | the whole, and its short form | by `read_result` |
    | yes | the head and tail, and the place | where it was stored, such as by the file tools |

    A tool's own limit (`max_result`, 100,000 characters by default) comes before. Give tools with larger results
    `max_result=ResultLimit(None)`.
    """

    in_sub_agents = True
    kinds: tuple[type[Event], ...] | None = (PostActingEvent,)

    def __init__(
        self,
        max_tokens: int = LARGE,
        keep_tokens: int = KEPT,
        *,
        exclude: Collection[str] = READING,
        media: MediaChoice = "keep",
        evictor: ResultEvictor | Callable[[ToolUseBlock, ToolResultBlock], Reference] | None = None,
        patience: float = 30.0,
        counter: TokenCounter | None = None,
        priority: int = 50,
    ) -> None:
        check_sizes(max_tokens, keep_tokens)
        check_one_of("media", media, ("keep", "notice"), optional=False)
        check_priority("ToolResultEvictionHook", priority)
        if counter is not None and not isinstance(counter, TokenCounter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"counter needs a method count(messages, tools), not {counter!r:.60}.")
        self.max_tokens = max_tokens
        self.keep_tokens = keep_tokens
        self.exclude: frozenset[str] = check_names("exclude", exclude) | {READ_RESULT}
        self.media: MediaChoice = media
        self.evictor = evictor
        self.priority = priority
        # checks evictor and patience
        self._limit = ResultLimit(None, None, evictor, patience)
        counting = EstimatedTokens() if counter is None else counter
        self._measure: Callable[[Msg], int] = lambda message: counting.count((message,))

    def tools(self) -> tuple[Tool, ...]:
        """The tool that reads the whole results."""
        return (read_result,)

    def on_event(self, event: Event) -> Event | Flow[Event] | None:
        assert isinstance(event, PostActingEvent)
        result = event.result
        if result.name in self.exclude:
            return None
        if not may_exceed(result, self.max_tokens):
            return None
        if size_of(result)[0] <= _AT_ONCE:
            return self._evicted(event)
        found = on_worker(partial(self._evicted, event))
        return found.pipe(concat_map(lambda changed: event if changed is None else changed))

    def _evicted(self, event: PostActingEvent) -> Event | Flow[Event] | None:
        if self._measure(Msg.tool(event.result)) <= self.max_tokens:
            return None
        return self._short(event) if self.evictor is None else self._stored(event)

    def _short(self, event: PostActingEvent) -> Event | None:
        count = text_counter(self._measure)

        def form(whole: ContentBlock, shown: ContentBlock) -> ContentBlock | None:
            if not isinstance(whole, ToolResultBlock) or not isinstance(shown, ToolResultBlock):
                return None
            return shortened_result(whole, shown, self.keep_tokens, count, media=self.media == "keep")

        message = with_forms(event.message, form, self._measure)
        return None if message is None else event.replace(message=message)

    def _stored(self, event: PostActingEvent) -> Flow[Event]:
        result = event.result
        text = result.text
        # the place of the whole is not known yet: some room for its words
        short = cut_text(text, self.keep_tokens, " " * 60, text_counter(self._measure))
        limit = ResultLimit(
            max(LEAST, len(short)) if short is not text else None,
            None if self.media == "keep" else 0,
            self.evictor,
            self._limit.patience,
        )

        def done(stored: object) -> Event:
            assert isinstance(stored, ToolResultBlock)
            limited = stored.metadata.get("limited")
            if isinstance(limited, dict) and "error" in limited:
                # not stored: memory keeps the whole
                return self._short(event) or event
            return event.with_result(stored)

        return evicted(limit, event.tool_use, result).pipe(concat_map(done))

    def __repr__(self) -> str:
        where = "" if self.evictor is None else f" to {self.evictor!r:.60}"
        return f"<ToolResultEvictionHook of more than {self.max_tokens:,} tokens{where}>"
