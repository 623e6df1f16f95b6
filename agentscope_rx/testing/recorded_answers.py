"""The model calls in a log of events, and the turns of a `ScriptedModel` that play them again.

    pre_reasoning  reasoning_chunk*  retry  reasoning_chunk*  post_reasoning        one call: a turn
    pre_reasoning  reasoning_chunk*  error                                          one that failed
    pre_reasoning  reasoning_chunk*  (the run ended, or the log)                    one that was left: the turn hangs

    context  memory  pre_reasoning                                                  a summary by a hook, then a call

The chunks of a call are played if they add up to its recorded message. If they do not (hooks have rewritten one of
them, or the stream did not show all), the message is played, because chunks are a preview.
"""

from __future__ import annotations

import builtins
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from agentscope_rx import errors
from agentscope_rx.errors import AgentScopeError, ModelError, UnsupportedOptionError
from agentscope_rx.events import (
    ChunkEvent,
    ContextEvent,
    ErrorEvent,
    Event,
    MemoryEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreReasoningEvent,
    PreSummaryEvent,
    ReasoningChunkEvent,
    RetryEvent,
    RunFold,
    SummaryChunkEvent,
)
from agentscope_rx.memory.short_forms import sent_form
from agentscope_rx.memory.views import sent
from agentscope_rx.messages import AudioBlock, ChatUsage, ContentBlock, Msg, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.messages.marks import summary_in
from agentscope_rx.messages.sources import Base64Source
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.response import (
    AudioDelta,
    ChatResponse,
    ChunkBlock,
    RetryNotice,
    ToolUseDelta,
    WaitNotice,
)
from agentscope_rx.models.wire.speaker_names import AS_IT_IS

S = TypeVar("S", str, bytes)

Post = PostReasoningEvent | PostSummaryEvent
EMPTY_IDS: Mapping[str, str] = {}

Timed = tuple[float, ChatResponse]
"""An increment, with the time of its event."""


class RecordedError(ModelError):
    """A recorded failure whose class cannot be imported. The error has a class of the recorded name."""


_INNER_SUMMARY = re.compile(r"<summary>\n\([^\n]*\)\n(.*)\n</summary>", re.DOTALL)
"""A summary as requests send it, and what a model had written of it."""


class RecordedSummary:
    """A summary that a hook has asked the model for. The log has what became of it, and not the answer itself."""

    def __init__(self, event: ContextEvent) -> None:
        self.error: str = event.error
        self.usage: ChatUsage | None = event.usage
        self.text: str = ""

    def answer(self) -> Sequence[ChatResponse]:
        """The answer; its tokens count once, though a long conversation is summarised in parts."""
        if self.error or not self.text:
            raise RecordedError(f"There is no summary in the log: {self.error or 'the compaction was cut off'}")
        inner = _INNER_SUMMARY.fullmatch(self.text)
        usage, self.usage = self.usage, None
        return (ChatResponse((TextBlock(inner[1] if inner else self.text),), usage=usage),)


class RecordedCall:
    """A model call in a log: its `pre` event, the `history` of its run before it, and how it went on."""

    def __init__(self, pre: PreReasoningEvent, history: tuple[Msg, ...], at: int) -> None:
        self.pre = pre
        self.run_begin: int = at
        """The number, in the log, of the first event of its run."""
        self.run_end: int = at
        """The number of the last one."""
        self.history = history
        self.shown: list[ChunkEvent | RetryEvent] = []
        self.post: Post | None = None
        self.error: Exception | None = None
        self.summaries: list[RecordedSummary] = []
        """Those that hooks asked for since the call before."""
        self.compacted = False
        """True if hooks have compacted the conversation since the run began."""
        self.refused = False
        """True if hooks were asked for a compaction because the request was too long."""
        self.silent = False
        """True if the answer was a summary without words, which no Post event reports."""

    @property
    def hangs(self) -> bool:
        """True if the answer never came to its end: the run was interrupted or left."""
        if self.post is not None:
            return self.post.interrupted
        return self.error is None and not self.silent

    def increments(self, ids: Mapping[str, str] = EMPTY_IDS) -> Iterator[Timed]:
        """The increments of the recorded answer, those of failed attempts included.

        `ids` are the recorded ids of sub-agents' conversations, and those that they have now.
        """
        post, first = self.post, self.pre.timestamp
        if post is not None and post.queued:
            yield first, ChatResponse(wait=WaitNotice(post.queued))
        shown = _as_shown(self.shown, () if post is None else post.message.content)
        if post is None:
            yield from shown
            return
        content = _with_ids(post.message, ids)
        if _message_of(shown, complete=not post.interrupted) != content:
            # without the attempt in which the message was written
            shown = _as_shown(_failed_attempts(self.shown), ())
            shown += [(post.timestamp, each) for each in _as_blocks(content)]
        yield from _with_rest(shown, post)


def with_ids(text: str, ids: Mapping[str, str]) -> str:
    """The text with these ids in place of the recorded ones."""
    for recorded, now in ids.items():
        text = text.replace(recorded, now)
    return text


def _with_ids(message: Msg, ids: Mapping[str, str]) -> Sequence[ContentBlock]:
    text = message.to_json() if ids else ""
    if not any(recorded in text for recorded in ids):
        return message.content
    return Msg.from_dict(json.loads(with_ids(text, ids))).content


def recorded_calls(events: Iterable[Event], agent: str | None) -> list[RecordedCall]:
    """The model calls of the runs of this agent, in their order; None for the outermost runs."""
    every = tuple(events)
    depth = min((event.depth for event in every), default=0)
    calls: list[RecordedCall] = []
    folds: dict[str, RunFold] = {}
    open_calls: dict[str, RecordedCall] = {}
    last: dict[str, int] = {}
    first: dict[str, int] = {}
    summaries: dict[str, list[RecordedSummary]] = {}
    for at, event in enumerate(every):
        if event.depth != depth if agent is None else event.agent != agent:
            continue
        run = folds.setdefault(event.run_id, RunFold())
        call = open_calls.get(event.run_id)
        if isinstance(event, PreReasoningEvent):
            if call is not None:
                _ask_again(call, event)
            open_calls[event.run_id] = call = RecordedCall(event, _as_sent(run.state.history), at)
            call.compacted = event.run_id in summaries
            if call.compacted:
                call.summaries, summaries[event.run_id] = summaries[event.run_id], []
            calls.append(call)
        elif isinstance(event, (ContextEvent, MemoryEvent)):
            _compacted(event, summaries, call)
        elif call is not None:
            _go_on(call, event)
            if call.post is not None or call.error is not None:
                del open_calls[event.run_id]
        run.add(event)
        first.setdefault(event.run_id, at)
        last[event.run_id] = at
    for call in calls:
        call.run_begin, call.run_end = first[call.pre.run_id], last[call.pre.run_id]
    return calls


def _as_sent(history: Iterable[Msg]) -> tuple[Msg, ...]:
    """The messages of a run as requests send them, without the summary: its place is before those of earlier runs."""
    seen = (message for message in sent(tuple(history)) if not message.metadata.get(AS_IT_IS))
    return tuple(sent_form(message) if message.metadata else message for message in seen)


def _compacted(
    event: ContextEvent | MemoryEvent, summaries: dict[str, list[RecordedSummary]], call: RecordedCall | None
) -> None:
    if isinstance(event, MemoryEvent):
        text = next((found for each in event.replaced if (found := summary_in(each.metadata))), "")
        for summary in summaries.get(event.run_id, ()):
            summary.text = summary.text or text
        return
    known = summaries.setdefault(event.run_id, [])
    if event.usage is not None or (event.error and event.step != "budget"):
        known.append(RecordedSummary(event))
    if call is not None and event.cause == "overflow":
        call.refused = True


def _ask_again(call: RecordedCall, following: PreReasoningEvent) -> None:
    """The run has called the model again, without a Post event of this call."""
    last = call.shown[-1] if call.shown else None
    if call.refused and isinstance(last, RetryEvent):
        # the provider refused it as too long, and a compaction made it smaller
        call.shown.pop()
        call.error = recorded_error(last.error_type, last.error_text)
    elif isinstance(call.pre, PreSummaryEvent):
        # it held no words
        call.silent = True
    elif not isinstance(following, PreSummaryEvent):
        # the provider refused a forced choice; a call before a summary was cut off by a deadline
        call.error = UnsupportedOptionError("The model refused the choice of a tool.", option="tool_choice")


def _go_on(call: RecordedCall, event: Event) -> None:
    if isinstance(event, (ReasoningChunkEvent, SummaryChunkEvent)):
        call.shown.append(event)
    elif isinstance(event, RetryEvent):
        if event.stage == "model":
            call.shown.append(event)
    elif isinstance(event, (PostReasoningEvent, PostSummaryEvent)):
        call.post = event
    elif isinstance(event, ErrorEvent):
        call.error = recorded_error(event.error_type, event.error_text)


def recorded_error(name: str, text: str) -> Exception:
    """An error of the recorded class and text. Its other attributes are None: a log does not have them."""
    known: object = getattr(errors, name, None) or getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, Exception):
        try:
            error = _of_ours(known, text) if issubclass(known, AgentScopeError) else known(text)
        except Exception:
            # its class needs more than a text
            error = None
        if error is not None and str(error) == text:
            return error
    kind = cast("type[RecordedError]", type(name or "RecordedError", (RecordedError,), {}))
    return kind(text)


def _of_ours(kind: type[AgentScopeError], text: str) -> AgentScopeError:
    # not by __init__, which would make another text of it
    error = kind.__new__(kind, text)
    error.args = (text,)
    for name in inspect.signature(kind.__init__).parameters:
        if name != "self" and not hasattr(error, name):
            setattr(error, name, None)
    return error


# --- chunk events as increments -----------------------------------------------------------------------------------


def _as_shown(events: Sequence[ChunkEvent | RetryEvent], content: Sequence[ContentBlock]) -> list[Timed]:
    """The increments that these events were made from. `content` is the message, which has the borders of its texts."""
    made: list[Timed] = []
    pieces = _Pieces(content)
    for event in events:
        if isinstance(event, RetryEvent):
            error = recorded_error(event.error_type, event.error_text)
            model = event.model_name or None
            notice = RetryNotice(event.attempt, event.delay, error, event.discarded, model)
            made.append((event.timestamp, ChatResponse(retry=notice)))
            pieces = _Pieces(content)
            continue
        block = pieces.of(event)
        shown = () if block is None else (block,)
        if shown or event.usage is not None:
            number = pieces.number(block)
            made.append((event.timestamp, ChatResponse(shown, usage=event.usage, block=number)))
    return made


class _Pieces:
    """The pieces of one answer: of snapshots the new part, and the numbers of their blocks."""

    def __init__(self, content: Sequence[ContentBlock]) -> None:
        self._calls: dict[str, int] = {}
        self._whole: dict[tuple[type[ContentBlock], str], str | bytes] = {}
        self._texts = _Cursor([(n, block.text) for n, block in enumerate(content) if isinstance(block, TextBlock)])
        self._thoughts = _Cursor(
            [(n, block.thinking) for n, block in enumerate(content) if isinstance(block, ThinkingBlock)]
        )

    def of(self, event: ChunkEvent) -> ChunkBlock | None:
        """The new piece of an event."""
        block = event.delta if event.snapshot is None else self._new(event.snapshot)
        if isinstance(block, ToolUseBlock) and block.raw is not None:
            index = self._calls.setdefault(block.id, len(self._calls))
            return ToolUseDelta(index, block.id, block.name, block.raw, block.metadata)
        if isinstance(block, AudioBlock) and isinstance(block.source, Base64Source):
            return AudioDelta(block.source.data, block.source.media_type)
        return cast("ChunkBlock | None", block)

    def number(self, block: ChunkBlock | None) -> int | None:
        """The number of the block that a text or thinking belongs to."""
        if isinstance(block, TextBlock):
            return self._texts.advance(len(block.text))
        return self._thoughts.advance(len(block.thinking)) if isinstance(block, ThinkingBlock) else None

    def _new(self, whole: ContentBlock) -> ContentBlock:
        """The part of a block so far that the events before did not have."""
        if isinstance(whole, TextBlock):
            return TextBlock(self._rest(whole, whole.text))
        if isinstance(whole, ThinkingBlock):
            return ThinkingBlock(self._rest(whole, whole.thinking), whole.signature, whole.metadata)
        if isinstance(whole, ToolUseBlock) and whole.raw is not None:
            piece = self._rest(whole, whole.raw, whole.id)
            return ToolUseBlock(whole.id, whole.name, raw=piece, metadata=whole.metadata)
        if isinstance(whole, AudioBlock) and isinstance(whole.source, Base64Source):
            return AudioBlock(Base64Source.of(self._rest(whole, whole.source.decode()), whole.source.media_type))
        return whole

    def _rest(self, whole: ContentBlock, now: S, id: str = "") -> S:
        key = type(whole), id
        before = cast("S", self._whole.get(key, now[:0]))
        self._whole[key] = now
        # a text that does not go on is another one
        return now[len(before) :] if now.startswith(before) else now  # pyright: ignore[reportArgumentType]


class _Cursor:
    """A place in the numbered texts of a message."""

    def __init__(self, texts: list[tuple[int, str]]) -> None:
        self._texts = texts
        self._index = 0
        self._used = 0

    def advance(self, length: int) -> int | None:
        """The number of the text that the next piece belongs to; None if there is none."""
        if self._index >= len(self._texts):
            return None
        if length and self._used == len(self._texts[self._index][1]) and self._index + 1 < len(self._texts):
            self._index, self._used = self._index + 1, 0
        self._used += length
        return self._texts[self._index][0]


def _failed_attempts(events: Sequence[ChunkEvent | RetryEvent]) -> Sequence[ChunkEvent | RetryEvent]:
    """The events up to the last retry."""
    last = max((n for n, event in enumerate(events, 1) if isinstance(event, RetryEvent)), default=0)
    return events[:last]


def _as_blocks(content: Iterable[ContentBlock]) -> Iterator[ChatResponse]:
    """A whole message as increments, one for each block."""
    for number, block in enumerate(content):
        yield ChatResponse((cast("ChunkBlock", block),), block=number)


def _message_of(increments: Iterable[Timed], *, complete: bool) -> tuple[ContentBlock, ...]:
    accumulator = ResponseAccumulator()
    for _, response in increments:
        accumulator.feed(response)
    return accumulator.blocks(complete=complete)


def _with_rest(increments: list[Timed], post: Post) -> list[Timed]:
    """The increments with the reason of the end, and with the usage that they do not add up to."""
    reported, last, retry = ChatUsage(), ChatUsage(), -1
    at_retry = last
    for index, (_, response) in enumerate(increments):
        if response.retry is not None:
            reported, last, retry, at_retry = reported + last, ChatUsage(), index, last
        elif response.usage is not None:
            last = response.usage
    made, usage = list(increments), None
    if post.usage is not None and post.usage != reported + last:
        if retry < 0:
            usage = post.usage
        else:
            # what a failed attempt has cost in the end is in no event but the last one
            at, response = made[retry]
            made[retry] = at, replace(response, usage=_difference(post.usage, reported + last, at_retry))
    if usage is not None or post.finish_reason is not None:
        made.append((post.timestamp, ChatResponse(usage=usage, finish_reason=post.finish_reason)))
    return made


def _difference(whole: ChatUsage, known: ChatUsage, of_attempt: ChatUsage) -> ChatUsage:
    """The usage of an attempt, if the whole answer has cost more than is known."""
    counts = [
        getattr(whole, name) - getattr(known, name) + getattr(of_attempt, name)
        for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "time")
    ]
    return ChatUsage(*counts)
