"""The acting stage: one batch of tool calls as events, then a tail.

PreActing |> hooks, for each call in turn
each call: toolkit.call |> stop_on(interrupt) |> chunks |> chunk hooks     at most n at once; chunks as they come
results in call order:  PostActing |> hooks |> remember
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from agentscope_rx.agent.agent import Stage
from agentscope_rx.agent.react.decide import Decision, after_acting
from agentscope_rx.agent.run import Done, Run
from agentscope_rx.event import ActingChunkEvent, Event, PostActingEvent, PreActingEvent, RetryEvent
from agentscope_rx.message import GenerateReason, Msg, ToolResultBlock, ToolUseBlock, closing_results
from agentscope_rx.reactive import (
    Flow,
    Tail,
    and_then,
    concat,
    concat_map,
    defer,
    ensure,
    expand,
    flat_map_kind,
    just,
    map_flow,
    merge_ordered,
    stop_on,
    tail,
    through,
)
from agentscope_rx.tool import ToolChunk, ToolRetry

if TYPE_CHECKING:
    from agentscope_rx.agent.react.react_agent import ReActAgent


@dataclass(frozen=True, slots=True)
class _Result:
    """A call's result, at its turn."""

    call: ToolUseBlock
    block: ToolResultBlock


@dataclass(slots=True)
class _Batch:
    """What is known of a batch as it goes on: the calls as the hooks left them, and the first stop."""

    calls: list[ToolUseBlock]
    stopped: Msg | None = None


def acting(agent: ReActAgent, run: Run, calls: Sequence[ToolUseBlock]) -> Stage:
    """Run the calls, remember their results, name what follows.

    Signals: PreActing of each call; then chunks as they come and PostActing in call order; then a tail or the reply.
    A failing tool is a result; a failing hook is the stage's error.
    Cancels: the calls in progress; those not begun never begin.
    """
    batch = _Batch([])

    def announced(event: PreActingEvent) -> Event:
        batch.calls.append(event.tool_use)
        return event

    announce: Flow[Event] = just(*calls).pipe(
        concat_map(
            lambda call: agent.hooks.fire(PreActingEvent(source=run.source, iteration=run.iteration, tool_use=call))
        ),
        map_flow(announced),
    )
    return concat(
        announce,
        defer(lambda: _run_batch(agent, run, batch)),
        defer(lambda: just(_next(agent, run, batch))),
    )


def _run_batch(agent: ReActAgent, run: Run, batch: _Batch) -> Flow[Event]:
    toolkit = agent.toolkit
    merged = merge_ordered(
        [_lane(agent, run, call) for call in batch.calls],
        max_concurrency=toolkit.max_concurrency if toolkit.parallel else 1,
        live=lambda value: type(value) is not _Result,
    )
    return merged.pipe(flat_map_kind(_Result, lambda result: _settle(agent, run, batch, result)))


def _lane(agent: ReActAgent, run: Run, call: ToolUseBlock) -> Flow[Event | _Result]:
    """One call: its chunks at once, and at the end its result. An interruption is a result, too."""
    found: list[ToolResultBlock] = []

    def shown(value: ToolChunk | ToolRetry | ToolResultBlock) -> Iterator[Event]:
        if isinstance(value, ToolResultBlock):
            found.append(value)
            yield ActingChunkEvent(source=run.source, iteration=run.iteration, tool_use=call, chunk=value, is_last=True)
        elif isinstance(value, ToolChunk):
            chunk = ToolResultBlock(call.id, call.name, value.output)
            yield ActingChunkEvent(source=run.source, iteration=run.iteration, tool_use=call, chunk=chunk)
        else:
            yield _retry_event(value)

    def interrupted() -> ToolResultBlock:
        return closing_results((call,))[0]

    run.tool_calls += 1
    asked = agent.toolkit.call(call, config=agent.tool_execution_config)
    traced = agent.tracer.trace_tool(asked, agent=agent.name, run_id=run.id, call=call)
    events: Flow[Event] = traced.pipe(
        stop_on(run.interrupt, grace=agent.interrupt_grace), ensure(ToolResultBlock, interrupted), expand(shown)
    )
    operator = agent.hooks.chunks(ActingChunkEvent)
    if operator is not None:
        events = events.pipe(through(cast("type[Event]", ActingChunkEvent), operator))
    return concat(cast("Flow[Event | _Result]", events), defer(lambda: just(_Result(call, found[0]))))


def _settle(agent: ReActAgent, run: Run, batch: _Batch, result: _Result) -> Flow[Event]:
    message = Msg.tool(result.block, agent.name)
    event = PostActingEvent(source=run.source, iteration=run.iteration, tool_use=result.call, message=message)

    def remember(post: PostActingEvent) -> Flow[Event]:
        if post.stop_requested and batch.stopped is None:
            post = post.replace(message=run.final(post.message, GenerateReason.ACTING_STOP_REQUESTED))
            batch.stopped = post.message
        return run.remember((post.message,)).pipe(and_then(lambda: just(cast("Event", post))))

    return agent.hooks.fire(event).pipe(concat_map(remember))


def _next(agent: ReActAgent, run: Run, batch: _Batch) -> Done | Tail[Event | Done]:
    decision = after_acting(interrupted=run.interrupted, stop=batch.stopped is not None)
    if decision is Decision.INTERRUPT:
        return tail(lambda: agent.interrupted(run))
    if decision is Decision.STOP and batch.stopped is not None:
        return Done(batch.stopped)
    run.iteration += 1
    return tail(lambda: agent.reasoning(run))


def _retry_event(notice: ToolRetry) -> RetryEvent:
    return RetryEvent(
        stage="tool",
        tool_use_id=notice.call.id,
        attempt=notice.number,
        delay=notice.delay,
        error_type=type(notice.error).__name__,
        error_text=str(notice.error),
        discarded=notice.discarded,
    )
