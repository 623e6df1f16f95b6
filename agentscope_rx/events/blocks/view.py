"""`BlockView`: the events of a run in AgentScope 2's vocabulary, event by event. Pure: it reads no clock.

    view = BlockView(session_id="s1")
    for event in events: yield from view.add(event)

| our event                            | theirs                                                              |
|--------------------------------------|---------------------------------------------------------------------|
| PreCallEvent                         | REPLY_START, unless it continues a reply; USER_CONFIRM_RESULT for   |
|                                      | its answers, EXTERNAL_EXECUTION_RESULT for results in its input     |
| PreReasoningEvent, PreSummaryEvent   | MODEL_CALL_START, HINT_BLOCKs; EXCEED_MAX_ITERS before a summary    |
| chunks                               | blocks                                                              |
| PostReasoningEvent, PostSummaryEvent | the ends of its blocks, MODEL_CALL_END                              |
| PreActingEvent, PostActingEvent      | TOOL_RESULT_START; the result's deltas, TOOL_RESULT_END             |
| PostCallEvent                        | blocks of a reply that no chunk has shown; REQUIRE_*, or REPLY_END  |
| ErrorEvent                           | REPLY_END with the error                                            |
| all others                           | CUSTOM, with the event's `type` as name and its JSON as value       |

Further CUSTOM events are `tool_progress` (a tool's value before its result), `message_discarded` (the blocks of a
failed attempt are void) and `message_replaced` (the message differs from its blocks: `value["message"]` is the whole).

Each run is a reply, whose `reply_id` is the run's id. The runs of sub-agents are replies within: their events have the
`agent` and the `path` in `metadata`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events.base import Event
from agentscope_rx.events.blocks.content import call_block, data_of, output_blocks, result_block, state_of
from agentscope_rx.events.blocks.failures import kind_of
from agentscope_rx.events.blocks.message_blocks import MessageBlocks
from agentscope_rx.events.blocks.values import (
    BlockEvent,
    CustomEvent,
    ExceedMaxItersEvent,
    ExternalExecutionResultEvent,
    HintBlockEvent,
    Json,
    ModelCallEndEvent,
    ModelCallStartEvent,
    ReplyEndEvent,
    ReplyFinishedReason,
    ReplyStartEvent,
    RequireExternalExecutionEvent,
    RequireUserConfirmEvent,
    ToolResultDataDeltaEvent,
    ToolResultEndEvent,
    ToolResultStartEvent,
    ToolResultTextDeltaEvent,
    UserConfirmResultEvent,
    UserInterruptEvent,
)
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.events.kinds import (
    ActingChunkEvent,
    ErrorEvent,
    OutputChunkEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    PreSummaryEvent,
    RetryEvent,
)
from agentscope_rx.messages.approval import Approve
from agentscope_rx.messages.blocks import TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.messages.msg import GenerateReason, Msg

_PLACE = ("v", "type", "run_id", "agent", "path", "seq", "timestamp")
"""What a CUSTOM event has elsewhere."""

_FINISHED: dict[GenerateReason, ReplyFinishedReason] = {
    GenerateReason.INTERRUPTED: "interrupted",
    GenerateReason.MAX_ITERATIONS: "exceed_max_iters",
}


class BlockView:
    """Makes the events of AgentScope 2 of a run's events: `add(event)` returns those that the event is.

    `session_id` is that of the reply. If the run continues a parked reply, give the id of that one as `reply_id`: then
    there is no REPLY_START. Memory grows with one message of each run in progress.
    """

    def __init__(self, *, session_id: str = "", reply_id: str | None = None) -> None:
        self._session_id = session_id
        self._continues = reply_id
        self._runs: dict[str, _Reply] = {}

    def add(self, event: Event) -> tuple[BlockEvent, ...]:
        """The events that this event is; `InvalidInputError` if it is none."""
        if not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"A BlockView takes events, not {event!r:.80}.")
        reply = self._runs.get(event.run_id)
        if reply is None:
            continues = None if event.depth else self._continues
            reply = self._runs[event.run_id] = _Reply(event, self._session_id, continues)
        made = tuple(reply.add(event))
        if isinstance(event, (PostCallEvent, ErrorEvent)):
            del self._runs[event.run_id]
        return made


class _Reply:
    """One run."""

    __slots__ = ("_at", "_begun", "_continues", "_count", "_last", "_message", "_metadata", "_reply_id", "_run_id",
                 "_session_id")  # fmt: skip

    def __init__(self, first: Event, session_id: str, continues: str | None) -> None:
        self._run_id = first.run_id
        self._reply_id = continues or first.run_id
        self._continues = continues is not None
        self._session_id = session_id
        self._metadata: Json = {"agent": first.agent, "path": list(first.path)} if first.depth else EMPTY
        self._count = 0
        self._at = 0.0
        self._message: MessageBlocks | None = None
        self._last: Msg | None = None
        """The last message of the model."""
        self._begun: set[str] = set()
        """The ids of the calls that are run."""

    def add(self, event: Event) -> Iterator[BlockEvent]:
        self._at = event.timestamp
        step = _step_of(type(event))
        if step is None:
            plain = event.to_dict()
            value = {name: plain[name] for name in plain if name not in _PLACE}
            return iter([self._make(CustomEvent, name=event.type, value=value)])
        return step(self, event)

    def _make(self, kind: type[BlockEvent], **own: Any) -> BlockEvent:
        self._count += 1
        metadata = self._metadata
        if self._message is not None:
            metadata = {**metadata, "message_id": self._message.id}
        id = f"{self._run_id}:{self._count}"
        return kind(id=id, created_at=self._at, metadata=metadata, reply_id=self._reply_id, **own)

    def _pre_call(self, event: PreCallEvent) -> Iterator[BlockEvent]:
        if not self._continues:
            yield self._make(ReplyStartEvent, session_id=self._session_id, name=event.agent)
        calls = {call.id: call for call in event.pending}
        answers: list[Json] = []
        for answer in event.answers:
            call = calls.get(answer.call_id, ToolUseBlock(answer.call_id, ""))
            approved = isinstance(answer, Approve)
            if isinstance(answer, Approve) and answer.input is not None:
                call = call.with_input(answer.input)
            block = call_block(call, "allowed" if approved else "finished", self._at)
            answers.append({"confirmed": approved, "tool_call": block, "rules": None})
        if answers:
            yield self._make(UserConfirmResultEvent, confirm_results=tuple(answers))
        results = [result_block(result, self._at) for message in event.input for result in message.tool_results]
        if results:
            yield self._make(ExternalExecutionResultEvent, execution_results=tuple(results))

    def _pre_reasoning(self, event: PreReasoningEvent) -> Iterator[BlockEvent]:
        if isinstance(event, PreSummaryEvent):
            yield self._make(ExceedMaxItersEvent, name=event.agent)
        for hint in event.hints:
            yield self._make(HintBlockEvent, block_id=hint.id, hint=hint.text, source=hint.name)
        yield self._make(ModelCallStartEvent, model_name=event.model_name)

    def _chunk(self, event: ChunkEvent) -> Iterator[BlockEvent]:
        yield from self._turn_to(event.message_id)
        if self._message is not None and event.snapshot is not None:
            yield from self._message.replace(event.snapshot)
        elif self._message is not None and event.delta is not None:
            yield from self._message.add(event.delta)

    def _turn_to(self, id: str) -> Iterator[BlockEvent]:
        """Another message: one that was begun before it is void."""
        if self._message is None or self._message.id != id:
            if self._message is not None:
                yield from self._message.discard()
            self._message = MessageBlocks(id, self._make)

    def _retry(self, event: RetryEvent) -> Iterator[BlockEvent]:
        if event.discarded and event.stage == "model" and self._message is not None:
            yield from self._message.discard()
            self._message = None
        plain = event.to_dict()
        yield self._make(CustomEvent, name=event.type, value={k: plain[k] for k in plain if k not in _PLACE})

    def _answered(self, event: PostReasoningEvent | PostSummaryEvent) -> Iterator[BlockEvent]:
        yield from self._finish(event.message)
        usage = event.usage
        yield self._make(
            ModelCallEndEvent,
            input_tokens=0 if usage is None else usage.input_tokens,
            output_tokens=0 if usage is None else usage.output_tokens,
            cache_input_tokens=0 if usage is None else usage.cached_tokens,
            finished_reason="interrupted" if event.interrupted else "completed",
        )

    def _finish(self, message: Msg) -> Iterator[BlockEvent]:
        yield from self._turn_to(message.id)
        if self._message is not None:
            yield from self._message.finish(message)
        self._message, self._last = None, message

    def _begin(self, call: ToolUseBlock) -> Iterator[BlockEvent]:
        if call.id not in self._begun:
            self._begun.add(call.id)
            yield self._make(ToolResultStartEvent, tool_call_id=call.id, tool_call_name=call.name)

    def _pre_acting(self, event: PreActingEvent) -> Iterator[BlockEvent]:
        yield from self._begin(event.tool_use)

    def _progress(self, event: ActingChunkEvent) -> Iterator[BlockEvent]:
        # the result follows in the PostActingEvent, as hooks have left it
        if not event.is_last:
            value = {"tool_call_id": event.tool_use.id, "output": output_blocks(event.chunk, self._at)}
            yield self._make(CustomEvent, name="tool_progress", value=value)

    def _post_acting(self, event: PostActingEvent) -> Iterator[BlockEvent]:
        yield from self._begin(event.tool_use)
        self._begun.discard(event.tool_use.id)
        for result in event.message.tool_results:
            yield from self._output(result)
            yield self._make(ToolResultEndEvent, tool_call_id=result.id, state=state_of(result))

    def _output(self, result: ToolResultBlock) -> Iterator[BlockEvent]:
        for index, block in enumerate(result.output):
            if isinstance(block, TextBlock):
                if block.text:
                    yield self._make(ToolResultTextDeltaEvent, tool_call_id=result.id, delta=block.text)
                continue
            for number, data in enumerate(data_of(block)):
                block_id = f"{result.id}:{index}.{number}"
                about = {"media_type": data.media_type, "data": data.data, "url": data.url}
                yield self._make(ToolResultDataDeltaEvent, tool_call_id=result.id, block_id=block_id, **about)

    def _post_call(self, event: PostCallEvent) -> Iterator[BlockEvent]:
        message = event.message
        # what a sub-agent waits for is in the reply of the outermost run, too
        parked = {} if event.depth else _parked(message)
        if self._last is None or self._last.id != message.id:
            # the calls of a reply are those that wait, which were shown
            content = [block for block in message.content if not isinstance(block, ToolUseBlock)]
            yield from self._finish(message.replace(content=content))
        elif self._last.content != message.content and not parked:
            yield self._make(CustomEvent, name="message_replaced", value={"message": message.to_dict()})
        if parked:
            for kind, state in ((RequireUserConfirmEvent, "asking"), (RequireExternalExecutionEvent, "submitted")):
                calls = [
                    call_block(call, state, self._at) for call in message.pending_calls if parked.get(call.id) is kind
                ]
                if calls:
                    yield self._make(kind, tool_calls=tuple(calls))
            return
        reason = message.generate_reason
        if reason is GenerateReason.INTERRUPTED:
            yield self._make(UserInterruptEvent)
        finished = _FINISHED.get(reason, "completed")
        yield self._make(ReplyEndEvent, session_id=self._session_id, finished_reason=finished)

    def _failed(self, event: ErrorEvent) -> Iterator[BlockEvent]:
        if self._message is not None:
            yield from self._message.discard()
            self._message = None
        error = {"type": kind_of(event), "message": event.error_text}
        yield self._make(ReplyEndEvent, session_id=self._session_id, finished_reason="error", error=error)

    def _nothing(self, event: Event) -> Iterator[BlockEvent]:
        return iter(())


def _parked(message: Msg) -> dict[str, type[BlockEvent]]:
    """By id of a call that waits for the caller: what it requires."""
    waiting = {result.id: result.kind for result in message.tool_results if result.kind is not None}
    required: dict[str, type[BlockEvent]] = {}
    for call in message.pending_calls:
        kind = waiting.get(call.id)
        if kind is not None:
            required[call.id] = (
                RequireExternalExecutionEvent if kind is ToolResultKind.SUSPENDED else RequireUserConfirmEvent
            )
    return required


_STEPS: dict[type[Event], Callable[[_Reply, Any], Iterator[BlockEvent]]] = {
    PreCallEvent: _Reply._pre_call,
    PreReasoningEvent: _Reply._pre_reasoning,
    ChunkEvent: _Reply._chunk,
    OutputChunkEvent: _Reply._nothing,
    RetryEvent: _Reply._retry,
    PostReasoningEvent: _Reply._answered,
    PostSummaryEvent: _Reply._answered,
    PreActingEvent: _Reply._pre_acting,
    ActingChunkEvent: _Reply._progress,
    PostActingEvent: _Reply._post_acting,
    PostCallEvent: _Reply._post_call,
    ErrorEvent: _Reply._failed,
}


@cache
def _step_of(kind: type[Event]) -> Callable[[_Reply, Any], Iterator[BlockEvent]] | None:
    """The step of this class, or of the class that it extends."""
    return next((step for each in kind.__mro__ if (step := _STEPS.get(each)) is not None), None)
