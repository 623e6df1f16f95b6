"""One question to the model: chunk events as they come, then the gathered answer.

    model.stream |> take_until(interrupt) |> expand(pieces as chunk events) |> chunk hooks      and then gathered()

The answer is gathered upstream of the hooks: what they do to chunks changes what is shown, never the message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar, cast

from agentscope_rx.agent.budget import charge
from agentscope_rx.agent.run import Run
from agentscope_rx.events import ChunkEvent, Event, EventSource, PreReasoningEvent, RetryEvent
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
from agentscope_rx.reactive import Flow, flat_map_iterable, take_until, transform_type

if TYPE_CHECKING:
    from agentscope_rx.agent.react.react_agent import ReActAgent

P = TypeVar("P", bound=PreReasoningEvent)


@dataclass(frozen=True, slots=True)
class Gathered:
    """The whole answer, and the name of the model that gave it; None if it was interrupted before any content."""

    message: Msg | None
    gather: ResponseAccumulator
    prompt: Sequence[Msg]
    model_name: str


def offered(agent: ReActAgent, pre: P, tools: Sequence[ToolSchema]) -> P:
    """The event, as hooks have left it, without a tool choice that asks for one of the tools that are withheld now."""
    options = pre.options or GenerateOptions()
    choice = options.tool_choice or agent.model.options.tool_choice
    if choice is None or choice.fits(tools):
        return pre
    return pre.replace(options=without_choice(agent, options))


def without_choice(agent: ReActAgent, options: GenerateOptions) -> GenerateOptions:
    """The options with the choice of tools left to the model, also where the model's own options force one."""
    return replace(options, tool_choice=None if agent.model.options.tool_choice is None else ToolChoice("auto"))


def model_round(
    agent: ReActAgent,
    run: Run,
    pre: PreReasoningEvent,
    tools: Sequence[ToolSchema],
    kind: type[ChunkEvent],
    beside: Callable[[Flow[Event]], Flow[Event]] | None = None,
) -> tuple[Flow[Event], Callable[[], Gathered]]:
    """Ask the model what the event says: what is shown, and what has been gathered once that has completed.

    `beside` adds to what is shown of the chunks.

    Signals: chunk events of `kind` and `RetryEvent`s; a `ModelError`.
    Cancels: the model call. An interruption ends it normally, with what has come so far.
    """
    gather = ResponseAccumulator(lambda id: run.conversation.call_ids.claim(id, pre.history, run.id))
    message_id = new_id()
    iteration = run.iteration
    source = run.source

    def shown(response: ChatResponse) -> list[Event]:
        events: list[Event] = []
        if response.retry is not None:
            run.model_retries += 1
            events.append(retry_event(response.retry, source))
        if response.wait is not None:
            run.model_waiting = response.wait.seconds is None
        for delta, view, count in gather.feed(response):
            events.append(
                kind(source=source, iteration=iteration, message_id=message_id, delta=delta, view=view, count=count)
            )
        if response.usage is not None and response.retry is None:
            _with_usage(events, kind(source=source, iteration=iteration, message_id=message_id), response.usage)
        return events

    def gathered() -> Gathered:
        run.model_waiting = False
        name = gather.model or agent.model.model_name
        return Gathered(_message(agent, run, gather, message_id), gather, prompt, name)

    prompt = Joined((pre.system_message,) if pre.system_message else (), pre.messages, pre.hints)
    asked = agent.model.stream(prompt, tools, pre.options)
    traced = agent.tracer.trace_model(asked, agent=agent.name, run_id=run.id, model=agent.model.model_name)
    events: Flow[Event] = traced.pipe(take_until(run.interrupt), flat_map_iterable(shown))
    operator = run.hooks.chunks(kind)
    if operator is not None:
        events = events.pipe(transform_type(cast("type[Event]", kind), operator, void=voids))
    if beside is not None:
        events = beside(events)
    if RetryEvent in run.hooks.seen:
        events = run.hooks.watched(RetryEvent, events)
    return events, gathered


def _with_usage(events: list[Event], alone: ChunkEvent, usage: ChatUsage) -> None:
    """What was told with the pieces is on the last one's event; what was told by itself is an event."""
    last = events.pop() if events else alone
    events.append(replace(cast("ChunkEvent", last), usage=usage))


def _message(agent: ReActAgent, run: Run, gather: ResponseAccumulator, message_id: str) -> Msg | None:
    """The answer as a message, counted; None if it was interrupted before any content. It may say nothing."""
    run.model_calls += 1
    if run.parent is not None:
        charge(run.parent, model_calls=1)
    for answered_by, usage in gather.costs:
        run.usage = run.usage + usage
        model = answered_by or agent.model.model_name
        if run.limits is not None:
            run.cost += run.limits.price(model, usage)
        if run.parent is not None:
            charge(run.parent, model=model, usage=usage)
    content = gather.blocks(complete=not run.interrupted)
    if not content and run.interrupted:
        return None
    calls = [block for block in content if type(block) is ToolUseBlock]
    reason = GenerateReason.TOOL_CALLS if calls else GenerateReason.MODEL_STOP
    return Msg(agent.name, content, MsgRole.ASSISTANT, id=message_id, usage=gather.usage, generate_reason=reason)


def says_something(content: Sequence[ContentBlock]) -> bool:
    """Whether there is anything in it, be it thinking alone."""
    return any(not isinstance(block, TextBlock) or block.text for block in content)


def silent(content: Sequence[ContentBlock]) -> bool:
    """Whether this says nothing: thinking alone is no answer."""
    return all(isinstance(b, ThinkingBlock) or (isinstance(b, TextBlock) and not b.text) for b in content)


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
    """Whether the chunks before it, of this answer or call, are void: what hooks still hold of them is not shown."""
    return isinstance(event, RetryEvent) and event.discarded
