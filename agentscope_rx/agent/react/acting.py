"""The acting stage: one batch of tool calls as events, then a tail.

sort: calls that run now | rejected | waiting for the caller                                 see `react.approval`
PreActing |> hooks, for each call that runs, in turn
each call: toolkit.call |> take_until(interruption) |> chunks |> chunk hooks                  see `react.tool_call`
results in call order:  PostActing |> hooks |> remember                     except those that are suspended

tail(reasoning) | tail(end_interrupted) | Done(message)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from agentscope_rx.agent.react.approval import (
    BatchEntry,
    CallBatch,
    remember_edits,
    sort_calls,
    take_hooked,
    waiting_reply,
)
from agentscope_rx.agent.react.decide import Decision, after_acting, before_acting
from agentscope_rx.agent.react.return_direct import direct_reply
from agentscope_rx.agent.react.stage import ActingCore, ReActCore, around_stage, probed_stage
from agentscope_rx.agent.react.steering import end_or_go_on
from agentscope_rx.agent.react.structured_output import after_results, output_of
from agentscope_rx.agent.react.tool_call import ToolResult, ToolRun, counts, flow_of
from agentscope_rx.agent.run import Done, Emitted, Run, Stage
from agentscope_rx.agent.structured_output.state import StructuredOutputState
from agentscope_rx.events import Event, MemoryEvent, PostActingEvent, PreActingEvent
from agentscope_rx.messages import GenerateReason, Msg, ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import (
    Flow,
    Tail,
    concat,
    concat_map,
    concat_map_type,
    defer,
    empty,
    just,
    merge_ordered,
    onward,
    steps,
    tail,
)


def acting(agent: ActingCore, run: Run, calls: Sequence[ToolUseBlock]) -> Stage:
    """Run the calls, remember their results, name the next stage.

    Signals: PreActing of each call that runs; then chunks as they come and PostActing in call order; then a tail or
    the reply. A failing tool is a result; a failing hook is the stage's error.
    Cancels: the calls in progress; those that have not begun never begin.
    """
    batch = sort_calls(run, calls, agent.in_doubt)
    limit = run.usage.before_tools(sum(counts(run, entry.call) for entry in batch.runs)) if run.usage.limited else None
    decision = before_acting(interrupted=run.interruption.event.fired, limited=limit is not None)
    if decision is Decision.INTERRUPT:
        return just(tail(partial(agent.end_interrupted, run)))
    if decision is Decision.LIMIT and limit is not None:
        return just(tail(lambda: agent.end_limited(run, *limit)))

    around, probes = run.hooks.around_acting, run.hooks.probes
    if around is None and probes is None:
        return _act(agent, run, batch)
    batches = [batch]

    def begin() -> Stage:
        # each attempt changes the batch
        return _act(agent, run, batches.pop() if batches else sort_calls(run, calls, agent.in_doubt))

    stage = defer(begin) if around is None else around_stage(around, run, "acting", begin, calls)
    return stage if probes is None else probed_stage(agent, probes, run, "acting", stage, calls)


def _act(agent: ActingCore, run: Run, batch: CallBatch) -> Stage:
    """PreActing, the calls, their results, and the next stage."""
    chain: Stage = steps(
        partial(_fire_pre, run, batch), partial(_run_batch, agent, run, batch), partial(_end, agent, run, batch)
    )
    if not batch.edited:
        return chain
    edits = [run.hooks.watched(MemoryEvent, remember_edits(run, batch))]
    if run.durable is not None:
        # a call that is run again after a crash must not have the model's arguments
        edits.append(run.durable.before(run, "acting", lambda: cast("Flow[Event]", empty())))
    return concat(*edits, chain)


def _fire_pre(run: Run, batch: CallBatch) -> Event | Flow[Event]:
    """PreActing |> hooks of each call that runs, in turn; without the events of calls that the hooks hold back."""

    def fire(entry: BatchEntry, history: Sequence[Msg]) -> Flow[Event]:
        def take(event: PreActingEvent) -> Flow[Event]:
            return just(event) if take_hooked(run, batch, entry, event.tool_use) else empty()

        return run.hooks.fire_then(_pre_event(run, history, entry), take)

    def fire_all(history: Sequence[Msg]) -> Flow[Event]:
        return just(*batch.runs).pipe(concat_map(lambda entry: fire(entry, history)))

    if PreActingEvent in run.hooks.seen:
        return run.history().pipe(concat_map(fire_all))
    runs = batch.runs
    return _pre_event(run, (), runs[0]) if len(runs) == 1 else just(*map(partial(_pre_event, run, ()), runs))


def _pre_event(run: Run, history: Sequence[Msg], entry: BatchEntry) -> PreActingEvent:
    call = entry.call
    schema = run.toolkit.schema(call.name)
    return PreActingEvent(source=run.source, iteration=run.iteration, tool_use=call, schema=schema, history=history)


def _run_batch(agent: ActingCore, run: Run, batch: CallBatch) -> Event | Flow[Event]:
    """Run the calls, as many at once as the toolkit allows; settle their results in call order."""
    settle = partial(_settle, agent, run, batch)
    entries = batch.settles
    batch.started = run.clock()
    if len(entries) == 1:
        # a single call needs no ordering
        return ToolRun(agent, run, batch, entries[0], None).begin(settle)
    peers = run.toolkit.batch([entry.call if entry.result is None else None for entry in entries])
    for entry in batch.runs:
        run.calls.waiting[entry.call.id] = entry.call

    def begin(entry: BatchEntry) -> Flow[Event | ToolResult]:
        return flow_of(ToolRun(agent, run, batch, entry, peers).begin(ToolResult))

    merged = merge_ordered(
        [defer(partial(begin, entry)) for entry in entries],
        max_concurrency=peers.at_once,
        live=lambda value: type(value) is not ToolResult,
        alone=peers.alone,
    )

    def settle_next(result: ToolResult) -> Event | Flow[Event]:
        return settle(*result)

    in_turn: Callable[[Flow[Event | ToolResult]], Flow[Event]] = concat_map_type(ToolResult, settle_next)
    return in_turn(merged)


def _settle(
    agent: ActingCore, run: Run, batch: CallBatch, entry: BatchEntry, block: ToolResultBlock | None
) -> Event | Flow[Event]:
    """PostActing |> hooks |> remember; nothing for a call that waits."""
    if block is None:
        return empty()
    call = entry.call
    post = partial(
        PostActingEvent,
        source=run.source,
        iteration=run.iteration,
        tool_use=call,
        message=Msg.tool(block, agent.name),
        queued=entry.queued,
        elapsed=entry.elapsed,
        schema=run.toolkit.schema(call.name),
    )
    if PostActingEvent not in run.hooks.seen:
        return _remember(run, batch, post())

    def fire(history: Sequence[Msg]) -> Event | Flow[Event]:
        return run.hooks.fire_then(post(history=history), partial(_remember, run, batch))

    return onward(run.history(), fire)


def _remember(run: Run, batch: CallBatch, post: PostActingEvent) -> Event | Flow[Event]:
    """Remember the result, as the hooks have left it."""
    output = output_of(run) if run.extras else None
    if output is not None:
        output.result(post.tool_use, post.result)
    if post.stop_requested and batch.stopped is None:
        post = post.replace(message=run.final(post.message, GenerateReason.ACTING_STOP_REQUESTED))
        batch.stopped = post.message
    return run.remember_then((post.message,), post, lambda: post)


def _end(agent: ActingCore, run: Run, batch: CallBatch) -> Emitted:
    """Name the next stage."""
    if not run.toolkit.returns_direct:
        return _next(agent, run, batch)

    def next_by(history: Sequence[Msg]) -> Done | Tail[Event | Done]:
        return _next(agent, run, batch, direct_reply(agent, run, history, fresh=True))

    return cast("Stage", run.history().pipe(concat_map(next_by)))


def _next(agent: ActingCore, run: Run, batch: CallBatch, direct: Msg | None = None) -> Done | Tail[Event | Done]:
    """Decide, and name the next stage. `direct` is the reply made of the results, if they are one."""
    run.calls.end_round()
    waiting = batch.waiting
    stopped = batch.stopped is not None
    ending = stopped or bool(waiting) or direct is not None
    interrupted = run.interruption.event.fired and run.interruption.decides(ending=ending)
    decision = after_acting(interrupted=interrupted, stop=stopped, waiting=bool(waiting), direct=direct is not None)
    if decision is Decision.INTERRUPT:
        return tail(partial(agent.end_interrupted, run))
    run.calls.pending = bool(waiting)
    output = output_of(run) if run.extras else None
    if output is not None and (follow := _by_output(agent, run, output, decision, batch)) is not None:
        return follow
    if decision is Decision.STOP and batch.stopped is not None:
        return Done(batch.stopped)
    if decision is Decision.SUSPEND:
        return Done(waiting_reply(run, waiting))
    if decision is Decision.RETURN and direct is not None:
        return tail(lambda: end_or_go_on(agent, run, direct))
    run.iteration += 1
    return Tail(partial(agent.reasoning, run))


def _by_output(
    agent: ActingCore, run: Run, output: StructuredOutputState, decision: Decision, batch: CallBatch
) -> Tail[Event | Done] | None:
    """What follows if the results decide on the output, which a model has been asked for."""
    return after_results(cast("ReActCore", agent), run, output, decision, batch.stopped)
