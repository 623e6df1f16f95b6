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
from agentscope_rx.reactive import Flow, OneShotEvent, Scope, empty, just, steps, take_until, then, transform_type
from agentscope_rx.reactive.kernel.observer import Relay, Sink, attach
from agentscope_rx.reactive.operators._take_until import Stoppable
from agentscope_rx.tools import Tool, ToolChunk, ToolEvent, ToolNested, ToolNotice, ToolRetry
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


End = Callable[[BatchEntry, ToolResultBlock | None], T | Flow[T]]
"""What follows a call: a function of its result, or of None if the call waits."""


class ToolRun(Stoppable):
    """One call of a batch. `peers` is the toolkit's view of the batch, None for a single call.

    It is the sink of the call's flow, which it subscribes to once, and which it ends at an interruption: an operator in
    between, with a sink of its own, would do no more.
    """

    __slots__ = (
        "_agent",
        "_batch",
        "_call",
        "_end",
        "_entry",
        "_found",
        "_left",
        "_outer",
        "_peers",
        "_run",
        "_shown",
        "_sink",
        "_source",
        "_stops",
    )
    _sink: Sink[Event]
    _outer: Scope
    _source: Flow[ToolEvent]
    _end: End[Event] | None

    def __init__(
        self, agent: ActingCore, run: Run, batch: CallBatch, entry: BatchEntry, peers: ToolBatch | None
    ) -> None:
        self._upstream = None
        # or stopped, or ended
        self.disposed = False
        # disposed of from downstream
        self._left = False
        self._agent = agent
        self._run = run
        self._batch = batch
        self._entry = entry
        self._call = entry.call
        self._peers = peers
        self._found: ToolResultBlock | None = None
        self._shown: Shown | None = None
        self._signal = run.interruption.event
        self._grace = agent.interrupt_grace
        self._forget = None
        self._timer = None
        # false if no interruption ends the call, or an operator does it
        self._stops = False

    def begin(self, end: End[T]) -> T | Flow[Event | T]:
        """The chunks of the call as they come, then `end(entry, result)`. Part of a subscription.

        Signals: chunk, retry and nested events, then those of `end`; a failing hook is the error. For a call that does
        not run, `end(entry, result)` itself.
        Cancels: the call.
        """
        run, entry, batch = self._run, self._entry, self._batch
        if entry.result is not None:
            return end(entry, entry.result)
        interrupted = self._signal.fired
        if (interrupted and run.interruption.is_shutdown) or (batch.sequential and batch.held(entry)):
            entry.wait(ToolResultKind.SUSPENDED, HELD)
            return end(entry, None)
        over = interrupted or (self._peers is not None and self._peers.cause is not None)
        if not over and batch.guarded and stopped_by_now(run, entry):
            run.calls.stop(self._call)
            return end(entry, entry.result)
        self._source = empty() if over else self._items()
        events: Flow[Event] = Flow(self._connect)
        if run.hooks.seen.isdisjoint(_HOOKED):
            self._end = end  # pyright: ignore[reportAttributeAccessIssue]
            return events
        self._end = None
        return steps(lambda: self._hooked(events), lambda: self._ended(end))

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

    def _ended(self, end: End[T]) -> T | Flow[T]:
        """`end(entry, result)`, once the journal has the result, if there is one."""
        durable, block = self._run.durable, self._found
        if durable is None or block is None:
            return self._settled(end)
        return durable.end(self._run, self._call, block).pipe(then(lambda: flow_of(self._settled(end))))

    def _settled(self, end: End[T]) -> T | Flow[T]:
        self._run.calls.stop(self._call)
        block = self._found
        if block is not None and block.kind is not None and block.kind.waits:
            # noted before the batch ends: in a sequential toolkit the calls behind it must not begin
            self._entry.waits = block
            block = None
        return end(self._entry, block)

    # --- the signals of the call ----------------------------------------------------------------------------------

    def _connect(self, sink: Sink[Event], scope: Scope) -> None:
        self._sink = sink
        self._outer = self._scope = scope
        sink.on_subscribe(self)
        if self.disposed:
            return
        if self._stops:
            if self._signal.fired:
                self.on_completed()
                return
            if self._grace:
                # the clean-up of this call alone is waited for
                self._scope = Scope(scope.loop, scope.context, scope.demand, scope.work)
            self._signal.listen(self._stop)
        attach(self._source, self, self._scope)

    def on_next(self, item: ToolEvent) -> None:
        if self._stops and self._signal.fired:
            self._stop()
            return
        try:
            event = self._result(item) if isinstance(item, ToolResultBlock) else self._event(item)
        except Exception as error:
            self.dispose()
            self._sink.on_error(error)
            return
        if event is not None:
            self._sink.on_next(event)

    def on_error(self, error: Exception) -> None:
        self._finish()
        self._sink.on_error(error)

    def dispose(self) -> None:
        self._left = True
        super().dispose()
        self._finish()

    def on_completed(self) -> None:
        self._finish()
        if self._found is None:
            try:
                event = self._cut_off()
            except Exception as error:
                self._sink.on_error(error)
                return
            if event is not None:
                self._sink.on_next(event)
                if self._left:
                    return
        if self._end is None:
            # what follows is behind the operators of hooks
            self._sink.on_completed()
            return
        try:
            following = self._settled(self._end) if self._run.durable is None else self._ended(self._end)
        except Exception as error:
            self._sink.on_error(error)
            return
        if hasattr(following, "_attach"):
            relay = Relay(self._sink)
            self._upstream = relay
            attach(following, relay, self._outer)  # pyright: ignore[reportArgumentType]
            return
        # mostly: memory takes no time
        self._sink.on_next(following)  # pyright: ignore[reportArgumentType]
        if not self._left:
            self._sink.on_completed()

    # --- the call -------------------------------------------------------------------------------------------------

    def _items(self) -> Flow[ToolEvent]:
        """The call. If it may be interrupted, this sink ends it then."""
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
                return self._until_ended(prepared.tool, background_call(agent, run, jobs, prepared, after))
        failed = None if peers is None else peers.failed
        stop: tuple[OneShotEvent, ...] = ()
        if isinstance(prepared, PreparedCall) and (prepared.limited or (peers is not None and peers.slots is not None)):
            # these end a wait in any case; a call that has begun may be one that is not interruptible
            stop = (self._signal,) if failed is None else (self._signal, failed)
        else:
            self._note_begin()
        context = context_of(agent, run, call) if tool is not None and tool.takes_context else None
        if run.durable is not None and isinstance(prepared, PreparedCall) and run.durable.records(prepared.tool):
            prepared.before = partial(run.durable.begin, run, call)
        items = run.toolkit.call(prepared, context=context, within=peers, stop=stop)
        around, probes = hooks.around_tool, hooks.probes
        if around is None and probes is None:
            return self._until_ended(tool, items)
        request = request_of(run, call)
        if around is not None:
            items = around.over(items, request)
        items = self._until_ended(tool, items)
        if probes is None:
            return items
        if self._stops:
            # by an operator: a probe sees the end
            self._stops = False
            items = take_until(self._signal, grace=self._grace)(items)
        return probes.tool(items, request)

    def _until_ended(self, tool: Tool | None, items: Flow[ToolEvent]) -> Flow[ToolEvent]:
        """The items. If the tool may be interrupted, this sink ends them, and so does another call that has failed."""
        self._stops = tool is None or tool.interruptible
        if self._stops and self._peers is not None and self._peers.failed is not None:
            return take_until(self._peers.failed, grace=self._grace)(items)
        return items

    def _event(self, item: ToolEvent) -> Event | None:
        """The event of an item before the result; the item that says that the call begins has none."""
        run, call = self._run, self._call
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

    def _result(self, block: ToolResultBlock, *, cut_off: bool = False) -> Event:
        """The last chunk."""
        run, entry = self._run, self._entry
        self._found = block
        if not cut_off:
            if entry.began is None:
                # a call that cannot be run: it has not waited
                self._note_begin()
            if self._peers is not None and self._peers.failed is not None:
                self._peers.note(self._call, block)
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
        block = failed or run.calls.closing_result(self._call, ToolResultKind.INTERRUPTED)
        return self._result(block, cut_off=True)

    def _note_begin(self) -> None:
        run, entry, call = self._run, self._entry, self._call
        entry.began = run.clock()
        entry.queued = entry.began - self._batch.started
        if not run.extras or counts(run, call):
            run.usage.add_tool_calls(1)
        run.calls.start(call)


def flow_of(given: T | Flow[T]) -> Flow[T]:
    """The flow, or one of the value."""
    return given if hasattr(given, "_attach") else just(given)  # pyright: ignore


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
