"""`ToolRun`: one tool call of a batch, as events and then its result.

    toolkit.call |> hooks around |> take_until(interruption) |> chunks |> chunk hooks        and then end(result)

An interruption ends the call with a result of kind `interrupted`; async tools have `interrupt_grace` seconds for their
clean-up. A shutdown suspends calls that have not begun.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar, cast

from agentscope_rx.agent.notices import count_retrieval
from agentscope_rx.agent.react.approval import HELD, BatchEntry, CallBatch, stopped_by_now
from agentscope_rx.agent.react.background_call import background_call, context_of, request_of, seconds_of
from agentscope_rx.agent.react.model_call import voids
from agentscope_rx.agent.react.stage import ActingCore
from agentscope_rx.agent.react.structured_output import output_of
from agentscope_rx.agent.run import Run
from agentscope_rx.events import ActingChunkEvent, BackgroundEvent, Event, PlanEvent, RetrievalEvent, RetryEvent
from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import Flow, OneShotEvent, Scope, concat, defer, empty, take_until, then, transform_type
from agentscope_rx.reactive.kernel.fuse import Immediate
from agentscope_rx.reactive.kernel.observer import OperatorSink, Relay, Sink, attach
from agentscope_rx.reactive.kernel.operator import OperatorFlow
from agentscope_rx.tools import ToolChunk, ToolEvent, ToolNested, ToolNotice, ToolRetry
from agentscope_rx.tools.calls.batch import ToolBatch
from agentscope_rx.tools.calls.execute import PreparedCall
from agentscope_rx.tools.calls.shown_values import Shown

T = TypeVar("T")

_WATCHED = (RetryEvent, PlanEvent, BackgroundEvent, RetrievalEvent)
_HOOKED: frozenset[type[Event]] = frozenset((ActingChunkEvent, *_WATCHED))


class ToolResult(NamedTuple):
    """The end of a call in its batch: its result, or None if the call waits."""

    entry: BatchEntry
    block: ToolResultBlock | None


End = Callable[[BatchEntry, ToolResultBlock | None], Flow[T]]
"""What follows a call: its result, or None if the call waits."""


class ToolRun(OperatorSink):
    """One call of a batch. `peers` is the toolkit's view of the batch, None for a single call.

    It is the sink of the call's flow, which it subscribes to once.
    """

    __slots__ = (
        "_agent",
        "_batch",
        "_call",
        "_end",
        "_entry",
        "_found",
        "_peers",
        "_run",
        "_scope",
        "_shown",
        "_sink",
    )
    _scope: Scope
    _sink: Sink[Event]
    _end: End[Event] | None

    def __init__(
        self, agent: ActingCore, run: Run, batch: CallBatch, entry: BatchEntry, peers: ToolBatch | None
    ) -> None:
        self._upstream = None
        self.disposed = False
        self._agent = agent
        self._run = run
        self._batch = batch
        self._entry = entry
        self._call = entry.call
        self._peers = peers
        self._found: ToolResultBlock | None = None
        self._shown: Shown | None = None

    def begin(self, end: End[T]) -> Flow[Event | T]:
        """The chunks of the call as they come, then `end(entry, result)`. Part of a subscription.

        Signals: chunk, retry and nested events, then those of `end`; a failing hook is the error.
        Cancels: the call.
        """
        run, entry, batch = self._run, self._entry, self._batch
        if entry.result is not None:
            return end(entry, entry.result)
        interrupted = run.interruption.event.fired
        if (interrupted and run.interruption.is_shutdown) or (batch.sequential and batch.held(entry)):
            entry.wait(ToolResultKind.SUSPENDED, HELD)
            return end(entry, None)
        over = interrupted or (self._peers is not None and self._peers.cause is not None)
        if not over and batch.guarded and stopped_by_now(run, entry):
            run.calls.stop(self._call)
            return end(entry, entry.result)
        events: Flow[Event] = OperatorFlow(self._connect, empty() if over else self._items())
        if run.hooks.seen.isdisjoint(_HOOKED):
            self._end = cast("End[Event]", end)
            return events
        self._end = None
        return concat(self._hooked(events), defer(lambda: self._ended(end)))

    def _hooked(self, events: Flow[Event]) -> Flow[Event]:
        """The events as the hooks on them leave them."""
        hooks = self._run.hooks
        operator = hooks.chunks(ActingChunkEvent)
        if operator is not None:
            events = events.pipe(transform_type(cast("type[Event]", ActingChunkEvent), operator, void=voids))
        for kind in _WATCHED:
            if kind in hooks.seen:
                events = hooks.watched(kind, events)
        return events

    def _ended(self, end: End[T]) -> Flow[T]:
        """`end(entry, result)`, once the journal has the result, if there is one."""
        durable, block = self._run.durable, self._found
        if durable is None or block is None:
            return self._settled(end)
        return durable.end(self._run, self._call, block).pipe(then(lambda: self._settled(end)))

    def _settled(self, end: End[T]) -> Flow[T]:
        self._run.calls.stop(self._call)
        block = self._found
        if block is not None and block.kind is not None and block.kind.waits:
            # noted before the batch ends: in a sequential toolkit the calls behind it must not begin
            self._entry.waits = block
            block = None
        return end(self._entry, block)

    # --- the signals of the call ----------------------------------------------------------------------------------

    def _connect(self, sink: Sink[Event], scope: Scope) -> ToolRun:
        self._sink = sink
        self._scope = scope
        return self

    def on_next(self, item: ToolEvent) -> None:
        try:
            event = self._event(item)
        except Exception as error:
            self.dispose()
            self._sink.on_error(error)
            return
        if event is not None:
            self._sink.on_next(event)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        if self._found is None:
            try:
                event = self._cut_off()
            except Exception as error:
                self._sink.on_error(error)
                return
            if event is not None:
                self._sink.on_next(event)
                if self.disposed:
                    return
        if self._end is None:
            # what follows is behind the operators of hooks
            self._sink.on_completed()
            return
        try:
            following = self._ended(self._end)
        except Exception as error:
            self._sink.on_error(error)
            return
        if type(following) is Immediate:
            # mostly: memory takes no time
            self._sink.on_next(following.value)  # pyright: ignore
            if not self.disposed:
                self._sink.on_completed()
            return
        relay = Relay(self._sink)
        self._upstream = relay
        attach(following, relay, self._scope)

    # --- the call -------------------------------------------------------------------------------------------------

    def _items(self) -> Flow[ToolEvent]:
        """The call, until it is interrupted."""
        agent, run, call, peers = self._agent, self._run, self._call, self._peers
        prepared = run.toolkit.prepare(call, config=agent.tool_execution_config, runtime=run.context)
        tool = None if isinstance(prepared, ToolResultBlock) else prepared.tool
        hooks, jobs = run.hooks, run.conversation.jobs
        if jobs is not None and isinstance(prepared, PreparedCall) and counts(run, call):
            after = seconds_of(jobs, prepared, run.context)
            if isinstance(after, ToolResultBlock):
                prepared, tool = after, None
            elif after is not None:
                if not run.toolkit.waits(prepared.tool):
                    self._note_begin()
                items = background_call(agent, run, jobs, prepared, after)
                return items if not prepared.tool.interruptible else self._until_cut_off(items)
        interruption = run.interruption.event
        failed = None if peers is None else peers.failed
        stop: tuple[OneShotEvent, ...] = ()
        if isinstance(prepared, PreparedCall) and (prepared.limited or (peers is not None and peers.slots is not None)):
            # these end a wait in any case; a call that has begun may be one that is not interruptible
            stop = (interruption,) if failed is None else (interruption, failed)
        else:
            self._note_begin()
        context = context_of(agent, run, call) if tool is not None and tool.takes_context else None
        if run.durable is not None and isinstance(prepared, PreparedCall) and run.durable.records(prepared.tool):
            prepared.before = partial(run.durable.begin, run, call)
        items = run.toolkit.call(prepared, context=context, within=peers, stop=stop)
        around, probes = hooks.around_tool, hooks.probes
        request = None if around is None and probes is None else request_of(run, call)
        if around is not None and request is not None:
            items = around.over(items, request)
        if tool is None or tool.interruptible:
            if failed is not None:
                items = take_until(failed, grace=agent.interrupt_grace)(items)
            items = take_until(interruption, grace=agent.interrupt_grace)(items)
        return items if probes is None or request is None else probes.tool(items, request)

    def _until_cut_off(self, items: Flow[ToolEvent]) -> Flow[ToolEvent]:
        """The items of a call that may go on in the background, until it is ended in the foreground."""
        grace = self._agent.interrupt_grace
        if self._peers is not None and self._peers.failed is not None:
            items = items.pipe(take_until(self._peers.failed, grace=grace))
        return items.pipe(take_until(self._run.interruption.event, grace=grace))

    def _event(self, item: ToolEvent) -> Event | None:
        """The event of an item; the item that says that the call begins has none."""
        run, call = self._run, self._call
        if isinstance(item, ToolResultBlock):
            if self._entry.began is None:
                # a call that cannot be run: it has not waited
                self._note_begin()
            if self._peers is not None:
                self._peers.note(call, item)
            return self._last(item)
        if isinstance(item, ToolChunk):
            if self._shown is None:
                self._shown = Shown(run.toolkit.get(call.name))
            self._shown.add(item)
            chunk = ToolResultBlock(call.id, call.name, item.output)
            return ActingChunkEvent(source=run.source, iteration=run.iteration, tool_use=call, chunk=chunk)
        if isinstance(item, ToolNested):
            # the event of another run, which `agent.stream` unwraps
            return cast("Event", item)
        if isinstance(item, ToolNotice):
            if isinstance(item.event, RetrievalEvent):
                count_retrieval(run, item.event, item.event.model_name)
            return cast("Event", item.event)
        if isinstance(item, ToolRetry):
            if self._shown is not None:
                self._shown.restart()
            return _retry_event(item, run)
        self._note_begin()
        return None

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
            chunk=block if self._shown is None else self._shown.rest(block),
            is_last=True,
            queued=entry.queued,
            elapsed=entry.elapsed,
        )

    def _cut_off(self) -> Event | None:
        """The last chunk of a call that ended without a result: it was interrupted, or another one has failed."""
        run, entry = self._run, self._entry
        if run.interruption.is_shutdown and entry.began is None:
            entry.wait(ToolResultKind.SUSPENDED, HELD)
            return None
        failed = None if self._peers is None else self._peers.cut_off(self._call, begun=entry.began is not None)
        return self._last(failed or run.calls.closing_result(self._call, ToolResultKind.INTERRUPTED))

    def _note_begin(self) -> None:
        run, entry, call = self._run, self._entry, self._call
        entry.began = run.clock()
        entry.queued = entry.began - self._batch.started
        if not run.extras or counts(run, call):
            run.usage.add_tool_calls(1)
        run.calls.start(call)


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
