"""`ToolRun`: one tool call of a batch, as events and then its result.

    toolkit.call |> hooks around |> take_until(interruption) |> chunks |> chunk hooks        and then end(result)

An interruption ends the call with a result of kind `interrupted`; async tools have `interrupt_grace` seconds for their
clean-up. A shutdown suspends calls that have not begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

from agentscope_rx.agent.notices import count_retrieval
from agentscope_rx.agent.react.approval import HELD, BatchEntry, CallBatch, stopped_by_now
from agentscope_rx.agent.react.background_call import background_call, context_of, request_of, seconds_of
from agentscope_rx.agent.react.model_call import voids
from agentscope_rx.agent.react.stage import ActingCore
from agentscope_rx.agent.react.structured_output import output_of
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.run_state import Durable
from agentscope_rx.events import ActingChunkEvent, BackgroundEvent, Event, PlanEvent, RetrievalEvent, RetryEvent
from agentscope_rx.frozen_values import quick_init
from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import Flow, concat, defer, empty, flat_map_iterable, take_until, then, transform_type
from agentscope_rx.tools import ToolChunk, ToolEvent, ToolNested, ToolNotice, ToolRetry
from agentscope_rx.tools.calls.batch import ToolBatch
from agentscope_rx.tools.calls.execute import PreparedCall
from agentscope_rx.tools.calls.shown_values import Shown

T = TypeVar("T")

_NOTICES = (PlanEvent, BackgroundEvent, RetrievalEvent)


@quick_init
@dataclass(frozen=True, slots=True)
class ToolResult:
    """The end of a call in its batch: its result, or None if the call waits."""

    entry: BatchEntry
    block: ToolResultBlock | None


class ToolRun:
    """One call of a batch. `peers` is the toolkit's view of the batch, None for a single call."""

    __slots__ = ("_agent", "_batch", "_call", "_entry", "_found", "_peers", "_run", "_shown")

    def __init__(
        self, agent: ActingCore, run: Run, batch: CallBatch, entry: BatchEntry, peers: ToolBatch | None
    ) -> None:
        self._agent = agent
        self._run = run
        self._batch = batch
        self._entry = entry
        self._call = entry.call
        self._peers = peers
        self._found: ToolResultBlock | None = None
        self._shown = Shown(run.toolkit.get(entry.call.name))

    def events(self, end: Callable[[ToolResult], Flow[T]]) -> Flow[Event | T]:
        """The chunks of the call as they come, then `end(result)`.

        Signals: chunk, retry and nested events, then those of `end`; a failing hook is the error.
        Cancels: the call.
        """
        entry = self._entry
        if entry.result is not None:
            return end(ToolResult(entry, entry.result))
        return defer(lambda: self._begin(end))

    def _begin(self, end: Callable[[ToolResult], Flow[T]]) -> Flow[Event | T]:
        run, entry = self._run, self._entry
        interrupted = run.interrupted
        if (interrupted and run.interruption.is_shutdown) or self._batch.held(entry):
            entry.wait(ToolResultKind.SUSPENDED, HELD)
            return end(ToolResult(entry, None))
        over = interrupted or (self._peers is not None and self._peers.cause is not None)
        if not over and self._batch.guarded and stopped_by_now(run, entry):
            run.calls.stop(self._call)
            return end(ToolResult(entry, entry.result))
        items: Flow[ToolEvent] = empty() if over else self._items()
        events: Flow[Event] = items.pipe(flat_map_iterable(self._show, self._close))
        operator = run.hooks.chunks(ActingChunkEvent)
        if operator is not None:
            events = events.pipe(transform_type(cast("type[Event]", ActingChunkEvent), operator, void=voids))
        if RetryEvent in run.hooks.seen:
            events = run.hooks.watched(RetryEvent, events)
        for kind in _NOTICES:
            if kind in run.hooks.seen:
                events = run.hooks.watched(kind, events)
        durable = run.durable
        if durable is None:
            return concat(events, defer(lambda: end(self._result())))
        return concat(events, defer(lambda: self._recorded(durable, end)))

    def _recorded(self, durable: Durable, end: Callable[[ToolResult], Flow[T]]) -> Flow[T]:
        """`end(result)`, once the journal has the result."""
        if self._found is None:
            return end(self._result())
        return durable.end(self._run, self._call, self._found).pipe(then(lambda: end(self._result())))

    def _items(self) -> Flow[ToolEvent]:
        """The call, until it is interrupted."""
        agent, run, call, peers = self._agent, self._run, self._call, self._peers
        prepared = run.toolkit.prepare(call, config=agent.tool_execution_config, runtime=run.context)
        tool = None if isinstance(prepared, ToolResultBlock) else prepared.tool
        jobs = run.conversation.jobs
        if jobs is not None and isinstance(prepared, PreparedCall) and counts(run, call):
            after = seconds_of(jobs, prepared, run.context)
            if isinstance(after, ToolResultBlock):
                prepared, tool = after, None
            elif after is not None:
                if not run.toolkit.waits(prepared.tool):
                    self._note_begin()
                items = background_call(agent, run, jobs, prepared, after)
                return items if not prepared.tool.interruptible else self._until_cut_off(items)
        if tool is None or not run.toolkit.waits(tool, peers):
            self._note_begin()
        context = context_of(agent, run, call) if tool is not None and tool.takes_context else None
        interruption = run.interruption.event
        failed = None if peers is None else peers.failed
        # these end a wait in any case; a call that has begun may be one that is not interruptible
        stop = (interruption,) if failed is None else (interruption, failed)
        if run.durable is not None and isinstance(prepared, PreparedCall) and run.durable.records(prepared.tool):
            prepared.before = partial(run.durable.begin, run, call)
        items = run.toolkit.call(prepared, context=context, within=peers, stop=stop)
        around, probes = run.hooks.around_tool, run.hooks.probes
        request = None if around is None and probes is None else request_of(run, call)
        if around is not None and request is not None:
            items = around.over(items, request)
        if tool is None or tool.interruptible:
            if failed is not None:
                items = items.pipe(take_until(failed, grace=agent.interrupt_grace))
            items = items.pipe(take_until(interruption, grace=agent.interrupt_grace))
        return items if probes is None or request is None else probes.tool(items, request)

    def _until_cut_off(self, items: Flow[ToolEvent]) -> Flow[ToolEvent]:
        """The items of a call that may go on in the background, until it is ended in the foreground."""
        grace = self._agent.interrupt_grace
        if self._peers is not None and self._peers.failed is not None:
            items = items.pipe(take_until(self._peers.failed, grace=grace))
        return items.pipe(take_until(self._run.interruption.event, grace=grace))

    def _show(self, item: ToolEvent) -> Iterator[Event]:
        """The event of an item; the item that says that the call begins has none."""
        run, call = self._run, self._call
        if isinstance(item, ToolResultBlock):
            if self._entry.began is None:
                # a call that cannot be run: it has not waited
                self._note_begin()
            if self._peers is not None:
                self._peers.note(call, item)
            yield self._last(item)
        elif isinstance(item, ToolChunk):
            self._shown.add(item)
            chunk = ToolResultBlock(call.id, call.name, item.output)
            yield ActingChunkEvent(source=run.source, iteration=run.iteration, tool_use=call, chunk=chunk)
        elif isinstance(item, ToolNested):
            # the event of another run, which `agent.stream` unwraps
            yield cast("Event", item)
        elif isinstance(item, ToolNotice):
            if isinstance(item.event, RetrievalEvent):
                count_retrieval(run, item.event, item.event.model_name)
            yield cast("Event", item.event)
        elif isinstance(item, ToolRetry):
            self._shown.restart()
            yield _retry_event(item, run)
        else:
            self._note_begin()

    def _last(self, block: ToolResultBlock) -> Event:
        run, entry = self._run, self._entry
        self._found = block
        now = run.clock()
        if entry.began is None:
            entry.queued = now - self._batch.started
        else:
            entry.elapsed = now - entry.began
        return ActingChunkEvent(
            source=run.source,
            iteration=run.iteration,
            tool_use=self._call,
            chunk=self._shown.rest(block),
            is_last=True,
            queued=entry.queued,
            elapsed=entry.elapsed,
        )

    def _close(self) -> Iterable[Event]:
        """The last chunk of a call that ended without a result: it was interrupted, or another one has failed."""
        if self._found is not None:
            return ()
        run, entry = self._run, self._entry
        if run.interruption.is_shutdown and entry.began is None:
            entry.wait(ToolResultKind.SUSPENDED, HELD)
            return ()
        failed = None if self._peers is None else self._peers.cut_off(self._call, begun=entry.began is not None)
        return (self._last(failed or run.calls.closing_result(self._call, ToolResultKind.INTERRUPTED)),)

    def _note_begin(self) -> None:
        run, entry, call = self._run, self._entry, self._call
        entry.began = run.clock()
        entry.queued = entry.began - self._batch.started
        if counts(run, call):
            run.usage.add_tool_calls(1)
        run.calls.start(call)

    def _result(self) -> ToolResult:
        self._run.calls.stop(self._call)
        block = self._found
        if block is not None and block.kind is not None and block.kind.waits:
            # noted before the batch ends: in a sequential toolkit the calls behind it must not begin
            self._entry.waits = block
            block = None
        return ToolResult(self._entry, block)


def counts(run: Run, call: ToolUseBlock) -> bool:
    """True if the call counts as a tool call; one of the response tool is an answer."""
    output = output_of(run)
    return output is None or not output.owns(call.name)


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
