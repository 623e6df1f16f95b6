"""The acting stage: one batch of tool calls as events, then a tail.

sort: runs now | rejected | waits for approval (and, if calls run in turn, all behind it)      see `react.approval`
PreActing |> hooks, for each call that runs, in turn
each call: [wait] toolkit.call |> take_until(interrupt) |> chunks |> chunk hooks    see `tools.calls.batch`
results in call order:  PostActing |> hooks |> remember                    but for those that are suspended
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from agentscope_rx.agent.agent import Stage
from agentscope_rx.agent.budget import charge, limit_before_tools
from agentscope_rx.agent.react.approval import (
    HELD,
    BatchEntry,
    CallBatch,
    batch_of,
    edited_in_memory,
    hooked,
    waiting_reply,
)
from agentscope_rx.agent.react.decide import Decision, after_acting, before_acting
from agentscope_rx.agent.react.model_call import voids
from agentscope_rx.agent.react.return_direct import direct_reply
from agentscope_rx.agent.react.structured_output import after_batch, asking_of
from agentscope_rx.agent.run import Done, Run
from agentscope_rx.events import ActingChunkEvent, Event, MemoryEvent, PostActingEvent, PreActingEvent, RetryEvent
from agentscope_rx.messages import GenerateReason, Msg, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import (
    Flow,
    Tail,
    concat,
    concat_map,
    concat_map_type,
    defer,
    empty,
    flat_map_iterable,
    just,
    merge_ordered,
    onward,
    tail,
    take_until,
    transform_type,
)
from agentscope_rx.tools import ToolChunk, ToolContext, ToolEvent, ToolNested, ToolRetry
from agentscope_rx.tools.calls.batch import ToolBatch
from agentscope_rx.tools.calls.shown_values import Shown

if TYPE_CHECKING:
    from agentscope_rx.agent.react.react_agent import ReActAgent


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Result:
    """A call's result, at its turn; None if it waits."""

    entry: BatchEntry
    block: ToolResultBlock | None


def acting(agent: ReActAgent, run: Run, calls: Sequence[ToolUseBlock]) -> Stage:
    """Run the calls, remember their results, name what follows.

    Signals: PreActing of each call that runs; then chunks as they come and PostActing in call order; then a tail or
    the reply. A failing tool is a result; a failing hook is the stage's error.
    Cancels: the calls in progress; those not begun never begin.
    """
    batch = batch_of(agent, run, calls)
    limit = None if run.limits is None and run.parent is None else limit_before_tools(run, _counted(run, batch))
    decision = before_acting(interrupted=run.interrupted, limited=limit is not None)
    if decision is Decision.INTERRUPT:
        return just(tail(lambda: agent.end_interrupted(run)))
    if decision is Decision.LIMIT and limit is not None:
        return just(tail(lambda: agent.end_limited(run, *limit)))

    parts: list[Flow[Event]] = [
        _announced(agent, run, batch),
        defer(lambda: _run_batch(agent, run, batch)),
    ]
    if batch.edited:
        parts.insert(0, run.hooks.watched(MemoryEvent, edited_in_memory(run, batch)))
    if not run.toolkit.returns_direct:
        return concat(*parts, defer(lambda: just(_next(agent, run, batch))))

    def ended(history: Sequence[Msg]) -> Done | Tail[Event | Done]:
        return _next(agent, run, batch, direct_reply(agent, run, history, fresh=True))

    return concat(*parts, cast("Stage", defer(run.history).pipe(concat_map(ended))))


def _announced(agent: ReActAgent, run: Run, batch: CallBatch) -> Flow[Event]:
    """The `PreActingEvent` of each call that runs, in turn, as the hooks leave it; none of one that they hold back."""

    def event(entry: BatchEntry, history: Sequence[Msg] = ()) -> PreActingEvent:
        call = entry.call
        schema = run.toolkit.schema(call.name)
        return PreActingEvent(source=run.source, iteration=run.iteration, tool_use=call, schema=schema, history=history)

    def announce(entry: BatchEntry, history: Sequence[Msg]) -> Flow[Event]:
        def announced(event: PreActingEvent) -> Flow[Event]:
            return just(event) if hooked(run, batch, entry, event.tool_use) else empty()

        return run.hooks.fired(event(entry, history), announced)

    def announce_all(history: Sequence[Msg]) -> Flow[Event]:
        return just(*batch.runs).pipe(concat_map(lambda entry: announce(entry, history)))

    if PreActingEvent in run.hooks.seen:
        return run.history().pipe(concat_map(announce_all))
    return just(*[event(entry) for entry in batch.runs])


def _run_batch(agent: ReActAgent, run: Run, batch: CallBatch) -> Flow[Event]:
    def settle(result: _Result) -> Flow[Event]:
        return _settle(agent, run, batch, result)

    entries = batch.settles
    batch.asked = run.clock()
    if len(entries) == 1:
        # nothing to put in order
        return _lane(agent, run, batch, entries[0], settle)
    within = run.toolkit.batch([entry.call if entry.result is None else None for entry in entries])
    for entry in batch.runs:
        run.waiting[entry.call.id] = entry.call
    merged = merge_ordered(
        [_lane(agent, run, batch, entry, _at_its_turn, within) for entry in entries],
        max_concurrency=within.at_once,
        live=lambda value: type(value) is not _Result,
        alone=within.alone,
    )
    return merged.pipe(concat_map_type(_Result, settle))


def _at_its_turn(result: _Result) -> Flow[Event | _Result]:
    return just(result)


def _lane(
    agent: ReActAgent,
    run: Run,
    batch: CallBatch,
    entry: BatchEntry,
    end: Callable[[_Result], Flow[T]],
    within: ToolBatch | None = None,
) -> Flow[Event | T]:
    """One call: its chunks at once, then what `end` makes of its result. An interruption is a result, too."""
    if entry.result is not None:
        return end(_Result(entry, entry.result))
    call = entry.call
    found: list[ToolResultBlock] = []
    seen = Shown(run.toolkit.get(call.name))

    def shown(value: ToolEvent) -> Iterator[Event]:
        if isinstance(value, ToolResultBlock):
            if entry.began is None:
                # one that cannot be: it has not waited
                _note_begin(run, batch, entry)
            if within is not None:
                within.note(call, value)
            yield last(value)
        elif isinstance(value, ToolChunk):
            seen.add(value)
            chunk = ToolResultBlock(call.id, call.name, value.output)
            yield ActingChunkEvent(source=run.source, iteration=run.iteration, tool_use=call, chunk=chunk)
        elif isinstance(value, ToolNested):
            # as it is: an event of another run, which the edge knows how to show
            yield cast("Event", value)
        elif isinstance(value, ToolRetry):
            seen.restart()
            yield _retry_event(value, run)
        else:
            _note_begin(run, batch, entry)

    def last(block: ToolResultBlock) -> Event:
        found.append(block)
        _note_end(run, batch, entry)
        return ActingChunkEvent(
            source=run.source,
            iteration=run.iteration,
            tool_use=call,
            chunk=seen.rest(block),
            is_last=True,
            queued=entry.queued,
            elapsed=entry.elapsed,
        )

    def begin() -> Flow[ToolEvent]:
        prepared = run.toolkit.prepare(call, config=agent.tool_execution_config, runtime=run.context)
        tool = None if isinstance(prepared, ToolResultBlock) else prepared.tool
        if tool is None or not run.toolkit.waits(tool, within):
            _note_begin(run, batch, entry)
        context = _context(agent, run, call) if tool is not None and tool.takes_context else None
        failed = None if within is None else within.failed
        # (they end a wait; what has begun may be one that is to go on)
        stop = (run.interrupt,) if failed is None else (run.interrupt, failed)
        asked = run.toolkit.call(prepared, context=context, within=within, stop=stop)
        traced = agent.tracer.trace_tool(asked, agent=agent.name, run_id=run.id, call=call)
        if tool is not None and not tool.interruptible:
            return traced
        if failed is not None:
            traced = traced.pipe(take_until(failed, grace=agent.interrupt_grace))
        return traced.pipe(take_until(run.interrupt, grace=agent.interrupt_grace))

    def cut_off() -> Iterable[Event]:
        if found:
            return ()
        if run.shut_down and entry.began is None:
            entry.wait(ToolResultKind.SUSPENDED, HELD)
            return ()
        failed = None if within is None else within.cut_off(call, begun=entry.began is not None)
        return (last(failed or run.closing(call, ToolResultKind.INTERRUPTED)),)

    def lane() -> Flow[Event | T]:
        if run.shut_down or batch.held(entry):
            entry.wait(ToolResultKind.SUSPENDED, HELD)
            return end(_Result(entry, None))
        over = run.interrupted or (within is not None and within.cause is not None)
        asked: Flow[ToolEvent] = empty() if over else begin()
        events: Flow[Event] = asked.pipe(flat_map_iterable(shown, cut_off))
        operator = run.hooks.chunks(ActingChunkEvent)
        if operator is not None:
            events = events.pipe(transform_type(cast("type[Event]", ActingChunkEvent), operator, void=voids))
        if RetryEvent in run.hooks.seen:
            events = run.hooks.watched(RetryEvent, events)
        return concat(events, defer(lambda: end(ended())))

    def ended() -> _Result:
        run.in_flight.pop(call.id, None)
        run.waiting.pop(call.id, None)
        if not found:
            return _Result(entry, None)
        block = found[0]
        if block.kind is not None and block.kind.waits:
            # noted at once: with calls in turn, those behind it must not begin
            entry.waits = block
            return _Result(entry, None)
        return _Result(entry, block)

    return defer(lane)


def _note_begin(run: Run, batch: CallBatch, entry: BatchEntry) -> None:
    call = entry.call
    entry.began = run.clock()
    entry.queued = entry.began - batch.asked
    counts = _counts(run, call)
    run.tool_calls += counts
    if run.parent is not None:
        charge(run.parent, tools=counts)
    run.begun.add(call.id)
    run.in_flight[call.id] = call
    run.waiting.pop(call.id, None)


def _note_end(run: Run, batch: CallBatch, entry: BatchEntry) -> None:
    now = run.clock()
    if entry.began is None:
        entry.queued = now - batch.asked
    else:
        entry.elapsed = now - entry.began


def _counts(run: Run, call: ToolUseBlock) -> bool:
    """Whether the call counts: one that hands over the output is an answer."""
    asking = asking_of(run)
    return asking is None or not asking.owns(call.name)


def _counted(run: Run, batch: CallBatch) -> int:
    return sum(_counts(run, entry.call) for entry in batch.runs)


def _context(agent: ReActAgent, run: Run, call: ToolUseBlock) -> ToolContext:
    return ToolContext(
        call,
        runtime=run.context,
        run_id=run.id,
        agent=agent.name,
        path=run.source.path,
        toolkit=run.toolkit,
        stores=() if run.context_store is None else (run.context_store,),
        interrupted=lambda: run.interrupted,
        host=run,
    )


def _settle(agent: ReActAgent, run: Run, batch: CallBatch, result: _Result) -> Flow[Event]:
    if result.block is None:
        return empty()
    asking = asking_of(run)
    message = Msg.tool(result.block, agent.name)
    call = result.entry.call

    def fire(history: Sequence[Msg]) -> Flow[Event]:
        event = PostActingEvent(
            source=run.source,
            iteration=run.iteration,
            tool_use=call,
            message=message,
            queued=result.entry.queued,
            elapsed=result.entry.elapsed,
            schema=run.toolkit.schema(call.name),
            history=history,
        )
        return run.hooks.fired(event, remember)

    def remember(post: PostActingEvent) -> Flow[Event]:
        if asking is not None:
            asking.result(post.tool_use, post.result)
        if post.stop_requested and batch.stopped is None:
            post = post.replace(message=run.final(post.message, GenerateReason.ACTING_STOP_REQUESTED))
            batch.stopped = post.message
        return run.remembered((post.message,), post, lambda: just(post))

    return onward(run.history(), fire) if PostActingEvent in run.hooks.seen else fire(())


def _next(agent: ReActAgent, run: Run, batch: CallBatch, direct: Msg | None = None) -> Done | Tail[Event | Done]:
    run.in_flight.clear()
    run.waiting.clear()
    waiting = batch.waiting
    stopped = batch.stopped is not None
    interrupted = run.cut_short(ending=stopped or bool(waiting) or direct is not None)
    decision = after_acting(interrupted=interrupted, stop=stopped, waiting=bool(waiting), direct=direct is not None)
    if decision is Decision.INTERRUPT:
        return tail(lambda: agent.end_interrupted(run))
    run.pending = bool(waiting)
    asking = asking_of(run)
    if asking is not None and (ended := after_batch(agent, run, asking, decision, batch.stopped)) is not None:
        return ended
    if decision is Decision.STOP and batch.stopped is not None:
        return Done(batch.stopped)
    if decision is Decision.SUSPEND:
        return Done(waiting_reply(run, waiting))
    if decision is Decision.RETURN and direct is not None:
        return tail(lambda: cast("Stage", run.replied(direct)))
    run.iteration += 1
    return tail(lambda: agent.reasoning(run))


def _retry_event(notice: ToolRetry, run: Run) -> RetryEvent:
    return RetryEvent(
        source=run.source,
        stage="tool",
        tool_use_id=notice.call.id,
        attempt=notice.number,
        delay=notice.delay,
        error_type=type(notice.error).__name__,
        error_text=str(notice.error),
        discarded=notice.discarded,
    )
