"""One model call: chunk events as they come, then the whole answer.

    model.stream |> hooks around |> deltas as chunk events, until an interruption |> chunk hooks     then answer()

The answer is accumulated before the hooks: a chunk hook changes the shown chunks, never the message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

from agentscope_rx.agent.react.stage import ReActCore
from agentscope_rx.agent.run import Run
from agentscope_rx.events import ChunkEvent, Event, EventSource, PreReasoningEvent, RetryEvent, SummaryChunkEvent
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.hooks import ModelRequest
from agentscope_rx.messages import (
    ChatUsage,
    ContentBlock,
    GenerateReason,
    Joined,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from agentscope_rx.messages.msg import new_id
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.response import ChatResponse, RetryNotice
from agentscope_rx.reactive import Flow, Scope, catch, transform_type
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink

P = TypeVar("P", bound=PreReasoningEvent)


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer and the model that gave it. `message` is None if it was interrupted before any content."""

    message: Msg | None
    response: ResponseAccumulator
    prompt: Sequence[Msg]
    model_name: str


def fit_choice(agent: ReActCore, pre: P, tools: Sequence[ToolSchema]) -> P:
    """The event without a tool choice that asks for a tool which is not among these."""
    options = pre.options or GenerateOptions()
    choice = options.tool_choice or agent.model.options.tool_choice
    if choice is None or choice.fits(tools):
        return pre
    return pre.replace(options=without_choice(agent, options))


def without_choice(agent: ReActCore, options: GenerateOptions) -> GenerateOptions:
    """The options with the choice of tools left to the model, even if the model's own options force one."""
    return replace(options, tool_choice=None if agent.model.options.tool_choice is None else ToolChoice("auto"))


def call_model(
    agent: ReActCore,
    run: Run,
    pre: PreReasoningEvent,
    tools: Sequence[ToolSchema],
    kind: type[ChunkEvent],
    also_show: Callable[[Flow[Event]], Flow[Event]] | None = None,
    failed: Callable[[Exception, ResponseAccumulator], Flow[Event]] | None = None,
) -> tuple[Flow[Event], Callable[[], Answer]]:
    """Ask the model as the event says: the events, and a function that gives the answer once they have completed.

    `also_show` adds events to the chunks. `failed` makes the events that follow if the call has failed, of its error
    and of what has come of the answer.

    Signals: chunk events of `kind` and `RetryEvent`s; a `ModelError`, or the error of a hook around the model.
    Cancels: the model call. An interruption ends it normally, with the content that has come.
    """
    chunks = _Chunks(run, kind, pre)
    accumulator = chunks.accumulator
    if run.asked is not None:
        # an operator of a hook has begun the stage again
        run.count_asked()
    run.asked = (accumulator, agent.model)
    prompt = Joined((pre.system_message,) if pre.system_message else (), pre.messages, pre.hints)
    responses = agent.model.stream(prompt, tools, pre.options)
    around = run.hooks.around_model
    if around is not None:
        responses = around.over(responses, _request(agent, run, pre, kind, prompt, tools))
    events: Flow[Event] = Flow(partial(chunks.connect, responses))
    operator = run.hooks.chunks(kind)
    if operator is not None:
        events = events.pipe(transform_type(cast("type[Event]", kind), operator, void=voids))
    if also_show is not None:
        events = also_show(events)
    if failed is not None:
        events = events.pipe(catch(partial(_failed, failed, run, accumulator)))
    if RetryEvent in run.hooks.seen:
        events = run.hooks.watched(RetryEvent, events)

    def answer() -> Answer:
        run.model_waiting = False
        name = accumulator.model or agent.model.model_name
        return Answer(_message(agent, run, accumulator, chunks.message_id), accumulator, prompt, name)

    return events, answer


def _request(
    agent: ReActCore,
    run: Run,
    pre: PreReasoningEvent,
    kind: type[ChunkEvent],
    prompt: Sequence[Msg],
    tools: Sequence[ToolSchema],
) -> ModelRequest:
    """The request as hooks around the model see it."""
    return ModelRequest(
        source=run.source,
        stage="summarizing" if kind is SummaryChunkEvent else "reasoning",
        iteration=run.iteration,
        model_name=agent.model.model_name,
        messages=prompt,
        tools=tools,
        options=pre.options,
        response_tool="" if run.request is None or run.request.tool is None else run.request.name,
    )


def _failed(
    failed: Callable[[Exception, ResponseAccumulator], Flow[Event]],
    run: Run,
    accumulator: ResponseAccumulator,
    error: Exception,
) -> Flow[Event]:
    run.count_asked()
    return failed(error, accumulator)


class _Chunks(OperatorSink):
    """The operator that makes chunk events of responses, and accumulates them. An interruption completes it.

    It serves one subscription, as the answer is accumulated once.
    """

    __slots__ = ("_interruption", "_iteration", "_kind", "_run", "_sink", "_source", "accumulator", "message_id")

    def __init__(self, run: Run, kind: type[ChunkEvent], pre: PreReasoningEvent) -> None:
        self._upstream = None
        # or ended
        self.disposed = False
        self._run = run
        self._kind = kind
        self._iteration = run.iteration
        self._source = run.source
        self._interruption = run.interruption.event
        self._sink: Sink[Event]
        self.message_id: str = new_id()
        claim = run.conversation.call_ids.claim
        self.accumulator = ResponseAccumulator(lambda id: claim(id, pre.history, run.id))

    def connect(self, responses: Flow[ChatResponse], sink: Sink[Event], scope: Scope) -> None:
        """Attach this operator between the model and the sink; not the model, if the run is interrupted already."""
        self._sink = sink
        sink.on_subscribe(self)
        if self.disposed:
            return
        if self._interruption.fired:
            self._end().on_completed()
            return
        self._interruption.listen(self._stop)
        responses._attach(self, scope)

    def on_next(self, response: ChatResponse, /) -> None:
        if self.disposed:
            return
        if self._interruption.fired:
            # a source that never waits gives the loop no chance to call the listeners
            self._stop()
            return
        emit = self._sink.on_next
        kind, source, iteration, message_id = self._kind, self._source, self._iteration, self.message_id
        view = self.accumulator.continued(response)
        if view is not None:
            # nearly every increment: more text for the block that the last one went to
            emit(
                kind(
                    source=source,
                    iteration=iteration,
                    message_id=message_id,
                    delta=response.content[0],  # pyright: ignore[reportArgumentType]
                    view=view,
                    count=len(view.pieces),
                )
            )
            return
        usage = response.usage
        if response.retry is not None or response.wait is not None:
            usage = self._notice(response)
        pieces = self.accumulator.feed(response)
        last = len(pieces) - 1
        for index, (delta, view, count) in enumerate(pieces):
            emit(
                kind(
                    source=source,
                    iteration=iteration,
                    message_id=message_id,
                    delta=delta,
                    view=view,
                    count=count,
                    # usage that came with deltas is on the last event
                    usage=usage if index == last else None,
                )
            )
            if self.disposed:
                return
        if usage is not None and last < 0:
            emit(kind(source=source, iteration=iteration, message_id=message_id, usage=usage))

    def _notice(self, response: ChatResponse) -> ChatUsage | None:
        """Show a retry, note a wait; the usage that there is to show."""
        if response.wait is not None:
            self._run.model_waiting = response.wait.seconds is None
        if response.retry is None:
            return response.usage
        self._run.usage.model_retries += 1
        self._sink.on_next(retry_event(response.retry, self._source))
        return None

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        if not self.disposed:
            self._end().on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        if not self.disposed:
            self._end().on_completed()

    def dispose(self) -> None:
        if not self.disposed:
            super().dispose()
            self._end()

    def _end(self) -> Sink[Event]:
        """The sink, which is let go: the chain of the round, which holds this object, would be held by it."""
        self.disposed: bool = True
        self._interruption.forget(self._stop)
        sink = self._sink
        del self._sink
        return sink

    def _stop(self) -> None:
        if not self.disposed:
            super().dispose()
            self._end().on_completed()


def _message(agent: ReActCore, run: Run, response: ResponseAccumulator, message_id: str) -> Msg | None:
    """Count the call; the answer as a message, or None if it was interrupted before any content."""
    run.asked = None
    run.usage.add_model_call(response.costs, agent.model.model_name)
    interrupted = run.interruption.event.fired
    content = response.blocks(complete=not interrupted)
    if not content and interrupted:
        return None
    calls = [block for block in content if type(block) is ToolUseBlock]
    reason = GenerateReason.TOOL_CALLS if calls else GenerateReason.MODEL_STOP
    return Msg(agent.name, content, MsgRole.ASSISTANT, id=message_id, usage=response.usage, generate_reason=reason)


def has_content(content: Sequence[ContentBlock]) -> bool:
    """True if there is any content, thinking included."""
    # (nearly always the first block decides, without a generator)
    first = content[0] if content else None
    if first is not None and (type(first) is not TextBlock or first.text):
        return True
    return any(type(block) is not TextBlock or block.text for block in content)


def is_silent(content: Sequence[ContentBlock]) -> bool:
    """True if there is no text and no call: thinking only is no answer."""
    for block in content:
        kind = type(block)
        if kind is not ThinkingBlock and (kind is not TextBlock or block.text):  # pyright: ignore
            return False
    return True


def retry_event(notice: RetryNotice, source: EventSource) -> RetryEvent:
    """The event of a model attempt that failed and will be followed by another."""
    return RetryEvent(
        source=source,
        stage="model",
        attempt=notice.attempt,
        delay=notice.delay,
        error_type=type(notice.error).__name__,
        error_text=str(notice.error),
        discarded=notice.discarded,
        model_name=notice.model or "",
    )


def voids(event: Event) -> bool:
    """True if the event discards the chunks before it: those that chunk hooks still hold are not shown."""
    return isinstance(event, RetryEvent) and event.discarded
